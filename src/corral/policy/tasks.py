"""Decides about tasks: what a valid one is, when it runs by itself, and what message its runs send to the model.

Guarantees: a cron time is used once, at the first look after it. A time that no frontend looked at within `LATE_AFTER`
was missed; missed times become one run together, or none. Limits of everything that a task can hold stand here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from corral.domain.errors import InvalidRequest, NotAllowed
from corral.domain.run import RunBudgets
from corral.domain.secret import SecretScope
from corral.domain.task import Media, MediaKind, TaskBudgets, TaskCatchUp, TaskSpec
from corral.policy import agents
from corral.policy.addresses import has_password
from corral.policy.cron import (
    InvalidSchedule,
    find_latest_start,
    find_next_start,
    find_zone,
    list_next_starts,
    normalise_cron,
    parse_cron,
)
from corral.policy.cron_words import describe_cron
from corral.policy.labels import check_labels
from corral.policy.secret_references import find_secret_reference
from corral.policy.storable_values import check_storable
from corral.policy.templates import check_template, translate_go_template

CODE = "bad_task"
NAME_MAX = 100
DESCRIPTION_MAX = 2000
WEBHOOKS_MAX = 8
WEBHOOK_METHODS = ("POST", "PUT", "PATCH")
MEDIA_MAX = 16
HEADERS_MAX = 20
HEADER_LENGTH_MAX = 2000
URL_LENGTH_MAX = 2000
MCP_SERVERS_MAX = 20
# Of all parameters together, as JSON.
PARAMETERS_BYTES_MAX = 256 * 1024
# One attachment, and all of one run. Base64 makes a third more of them, and a request to a model has at most 32 MiB.
MEDIA_BYTES_MAX = 20 * 1024 * 1024
MEDIA_TOTAL_BYTES_MAX = 22 * 1024 * 1024
WALL_S_MAX = 24 * 3600.0
STEPS_MAX = 1000
# A cron time that is used at most so late was not missed: a new leader is found within this time.
LATE_AFTER = timedelta(minutes=2)
# How far back missed times are looked for.
LOOK_BACK = timedelta(days=366)

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
# Headers that Corral, or the connection itself, sets.
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"})
_SECRET_WORDS = ("authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "credential")
_REFERENCE_HINT = "Store it with `corral secrets set NAME`, and write secret:NAME, or Bearer secret:NAME, as the value."
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def normalise_spec(spec: TaskSpec, *, allows_private: bool) -> TaskSpec:
    """Return a task as it is stored: templates of LocalAI translated, descriptors such as @daily written out. Raises
    `InvalidRequest` for the first thing that is wrong. `allows_private`: MCP servers may be in private networks."""
    stored = replace(
        spec,
        name=spec.name.strip(),
        prompt=translate_go_template(spec.prompt),
        cron=normalise_cron(spec.cron),
        webhooks=tuple(
            replace(one, method=one.method.upper(), payload_template=translate_go_template(one.payload_template))
            for one in spec.webhooks
        ),
    )
    _check_texts(stored)
    _check_schedule(stored)
    _check_addresses(stored)
    check_labels(stored.labels)
    check_parameters(stored.cron_parameters)
    _check_servers(stored, allows_private=allows_private)
    return stored


def _check_texts(spec: TaskSpec) -> None:
    if not spec.name or len(spec.name) > NAME_MAX or not spec.name.isprintable() or "/" in spec.name:
        raise _make_error(f"A task needs a name of 1 to {NAME_MAX} printable characters, without a slash.")
    if not spec.model.strip():
        raise _make_error("A task needs a model.")
    if not spec.prompt.strip():
        raise _make_error("A task needs a prompt.")
    if len(spec.description) > DESCRIPTION_MAX:
        raise _make_error(f"A description has at most {DESCRIPTION_MAX} characters.")
    check_template(spec.prompt)


def _check_schedule(spec: TaskSpec) -> None:
    try:
        if spec.cron:
            parse_cron(spec.cron)
        find_zone(spec.time_zone)
    except InvalidSchedule as error:
        raise InvalidRequest(error.message, hint=error.hint, code=CODE) from error


def _check_addresses(spec: TaskSpec) -> None:
    if len(spec.webhooks) > WEBHOOKS_MAX:
        raise _make_error(f"A task has at most {WEBHOOKS_MAX} webhooks.")
    if len(spec.media_sources) > MEDIA_MAX:
        raise _make_error(f"A task has at most {MEDIA_MAX} sources of media.")
    for webhook in spec.webhooks:
        if webhook.method not in WEBHOOK_METHODS:
            raise _make_error("A webhook is sent with POST, PUT or PATCH.")
        # The address of some services is a secret itself.
        if find_secret(webhook.url) is None:
            check_address(webhook.url)
        check_headers(webhook.headers)
        check_template(webhook.payload_template)
    for source in spec.media_sources:
        check_address(source.url)
        check_headers(source.headers)
    if spec.webhook_secret and find_secret(spec.webhook_secret) is None:
        raise _make_error("webhook_secret refers to a stored secret: secret:NAME.", _REFERENCE_HINT)


def _check_servers(spec: TaskSpec, *, allows_private: bool) -> None:
    names = [*(server.name for server in spec.mcp_servers), *spec.declared_servers]
    if len(names) > MCP_SERVERS_MAX:
        raise _make_error(f"A task uses at most {MCP_SERVERS_MAX} MCP servers.")
    if len(set(names)) < len(names):
        raise _make_error("Two MCP servers have the same name.")
    for server in spec.mcp_servers:
        agents.check_server_name(server.name)
        agents.check_address(server.url, allows_private=allows_private)
        agents.check_headers(server)
        for value in (server.token, *server.headers.values()):
            find_secret(value)


def check_address(url: str) -> None:
    """Raise `InvalidRequest` unless a text is an address of the web, without a password in it."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or len(url) > URL_LENGTH_MAX or not url.isprintable() or " " in url:
        raise _make_error("An address begins with http:// or https://, and has a host.")
    if has_password(url):
        raise _make_error("An address holds no user and no password.", _REFERENCE_HINT)


def redact_address(url: str) -> str:
    """Return an address as people may see it: without its query, and a reference as it is."""
    if find_secret(url) is not None:
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `InvalidRequest` for headers that cannot be sent, and for secrets that are written out."""
    if len(headers) > HEADERS_MAX:
        raise _make_error(f"At most {HEADERS_MAX} headers can be set.")
    for name, value in headers.items():
        is_sendable = len(value) <= HEADER_LENGTH_MAX and value.isprintable() and value.isascii()
        if not _HEADER_NAME.fullmatch(name) or len(name) > NAME_MAX or not is_sendable:
            raise _make_error(f"The header {name[:80]!r} cannot be sent.")
        lower = name.lower()
        if lower in _OWN_HEADERS or lower.startswith("webhook-"):
            raise _make_error(f"The header {name} is set by Corral.")
        if any(word in lower for word in _SECRET_WORDS) and find_secret(value) is None:
            raise InvalidRequest(f"The header {name} holds a secret.", hint=_REFERENCE_HINT, code="secret_in_clear")


def find_secret(value: str) -> tuple[str, str] | None:
    """Return the text before a reference to a secret, and the name of the secret; None if a value has no reference.
    `Bearer secret:ci` refers to the secret `ci`."""
    found = find_secret_reference(value)
    if found is None:
        return None
    before, reference = found
    if reference.scope is not SecretScope.OWN:
        raise NotAllowed(
            "A task can use secrets of its owner, not those of the cluster.",
            hint="Store the value with `corral secrets set NAME`, and write secret:NAME.",
            code="cluster_secret_refused",
        )
    return before, reference.name


def check_parameters(parameters: Mapping[str, Any]) -> None:
    check_storable(parameters)
    for name in parameters:
        if not _PARAMETER.fullmatch(name) or len(name) > NAME_MAX:
            raise InvalidRequest(
                f"{name[:80]!r} is not a name of a parameter.",
                hint="Letters, digits and underscores, with a letter first.",
                code="bad_parameter",
            )
    if len(json.dumps(parameters, ensure_ascii=False)) > PARAMETERS_BYTES_MAX:
        raise InvalidRequest(
            f"The parameters are larger than {PARAMETERS_BYTES_MAX // 1024} KiB.", code="parameters_too_large"
        )


def _make_error(sentence: str, hint: str | None = None) -> InvalidRequest:
    return InvalidRequest(sentence, hint=hint, code=CODE)


def make_budgets(budgets: TaskBudgets, default_wall_s: float) -> RunBudgets:
    return RunBudgets(
        wall_s=default_wall_s if budgets.wall_s is None else budgets.wall_s,
        steps=budgets.steps,
        tool_calls=budgets.tool_calls,
        tokens=budgets.tokens,
    )


# --- cron ---


def compute_next_run(spec: TaskSpec, now: datetime) -> datetime | None:
    """Return when a task runs by itself next; None if it does not."""
    if not spec.cron or not spec.is_enabled:
        return None
    return find_next_start(spec.cron, find_zone(spec.time_zone), now)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePreview:
    """Describes the cron pattern of a user's task: as stored, in words, and its next starts in its time zone."""

    cron: str
    words: str
    next_starts: tuple[datetime, ...]


def preview_schedule(cron: str, time_zone: str, now: datetime, count: int) -> SchedulePreview:
    """Return what a pattern means and its next starts. Raises `InvalidRequest` as `normalise_spec` does."""
    pattern = normalise_cron(cron)
    try:
        zone = find_zone(time_zone)
        starts = tuple(start.astimezone(zone) for start in list_next_starts(pattern, zone, now, count))
    except InvalidSchedule as error:
        raise InvalidRequest(error.message, hint=error.hint, code=CODE) from error
    return SchedulePreview(cron=pattern, words=describe_cron(pattern), next_starts=starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FireDecision:
    """Says what becomes of a due cron time of a task: a job is started, or a note says why not."""

    # The time that the run is for; None: nothing is started.
    start_at: datetime | None
    next_run_at: datetime
    note: str = ""


def decide_fire(spec: TaskSpec, due_at: datetime, now: datetime) -> FireDecision:
    """Decide about a time that was due. Of several that have passed, the latest counts."""
    zone = find_zone(spec.time_zone)
    since = max(due_at - timedelta(seconds=1), now - LOOK_BACK)
    latest = find_latest_start(spec.cron, zone, now, since=since) or due_at
    following = find_next_start(spec.cron, zone, now)
    if now - latest <= LATE_AFTER or spec.catch_up is TaskCatchUp.ONCE:
        return FireDecision(start_at=latest, next_run_at=following)
    minutes = LATE_AFTER // timedelta(minutes=1)
    note = (
        f"The time {latest.astimezone(zone):%Y-%m-%d %H:%M} was missed: it could not be used within {minutes} minutes."
    )
    return FireDecision(start_at=None, next_run_at=following, note=note)


# --- messages ---

_AUDIO_FORMATS = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
}
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml")


def make_message(prompt: str, media: Sequence[Media]) -> dict[str, Any]:
    """Return the message of the user for a model, in the form of OpenAI's chat API."""
    if not media:
        return {"role": "user", "content": prompt}
    return {"role": "user", "content": [{"type": "text", "text": prompt}, *(_make_part(one) for one in media)]}


def _make_part(media: Media) -> dict[str, Any]:
    match media.kind:
        case MediaKind.IMAGE:
            return {"type": "image_url", "image_url": {"url": make_data_uri(media)}}
        case MediaKind.AUDIO:
            kind = media.content_type.partition(";")[0].strip().lower()
            form = _AUDIO_FORMATS.get(kind, kind.partition("/")[2] or "wav")
            return {"type": "input_audio", "input_audio": {"data": _encode(media.content), "format": form}}
        case MediaKind.VIDEO:
            return {"type": "video_url", "video_url": {"url": make_data_uri(media)}}
        case MediaKind.FILE:
            text = _decode_text(media)
            if text is not None:
                return {"type": "text", "text": f"File {media.name or 'without a name'}:\n{text}"}
            file = {"filename": media.name or "file", "file_data": make_data_uri(media)}
            return {"type": "file", "file": file}


def _decode_text(media: Media) -> str | None:
    kind = media.content_type.partition(";")[0].strip().lower()
    if not kind.startswith("text/") and kind not in _TEXT_TYPES:
        return None
    try:
        return media.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def make_data_uri(media: Media) -> str:
    return f"data:{media.content_type};base64,{_encode(media.content)}"


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


_DATA_URI = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?P<options>(?:;[\w=.+-]+)*?);base64,", re.ASCII)
# Where the data of a data URI begin at the latest: the search must not go over attachments of many MiB.
_DATA_URI_HEAD_MAX = 1024
_DEFAULT_TYPES = {
    MediaKind.IMAGE: "image/png",
    MediaKind.VIDEO: "video/mp4",
    MediaKind.AUDIO: "audio/wav",
    MediaKind.FILE: "application/octet-stream",
}


def parse_data_uri(kind: MediaKind, text: str) -> Media | None:
    """Return the attachment in a data URI; None if the text is not a data URI. Raises `InvalidRequest` if it cannot be
    read."""
    match = _DATA_URI.match(text, 0, _DATA_URI_HEAD_MAX)
    if match is None:
        return None
    try:
        content = base64.b64decode(text[match.end() :], validate=True)
    except ValueError as error:
        raise InvalidRequest("The data of an attachment are not valid base64.", code="bad_media") from error
    return Media(kind=kind, content_type=match["type"] or _DEFAULT_TYPES[kind], content=content)


def get_default_type(kind: MediaKind) -> str:
    return _DEFAULT_TYPES[kind]


def check_media_size(media: Sequence[Media]) -> None:
    """Raise `InvalidRequest` if attachments are too large, or too many."""
    if len(media) > MEDIA_MAX:
        raise InvalidRequest(f"A job has at most {MEDIA_MAX} attachments.", code="bad_media")
    for one in media:
        if len(one.content) > MEDIA_BYTES_MAX:
            raise InvalidRequest(
                f"An attachment is larger than {MEDIA_BYTES_MAX // 1024**2} MiB.", code="media_too_large"
            )
    if sum(len(one.content) for one in media) > MEDIA_TOTAL_BYTES_MAX:
        raise InvalidRequest(
            f"The attachments together are larger than {MEDIA_TOTAL_BYTES_MAX // 1024**2} MiB.", code="media_too_large"
        )
