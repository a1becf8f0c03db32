"""Reads and writes sources, manifests and builds as JSON and YAML, for galleries and for the bus.

Unknown fields are ignored, as in every message between versions; a wrong one is named with its place, so that the
author of a gallery finds the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from corral.domain.backend import (
    PROCESSOR,
    USUAL_SIGNS,
    AdapterSupport,
    BackendSource,
    Build,
    Manifest,
    ReadyProbe,
    SourceKind,
)
from corral.domain.errors import InvalidRequest
from corral.policy.models.adapters import SELECTIONS

_ANY_PROBE = ReadyProbe()
API_KEY_MODES = ("none", "flag", "environment")
RUNS_ON = ("", PROCESSOR)
# Stands alone in a command, for the arguments that the options of a model become.
OPTIONS = "{options}"


def build_to_json(build: Build) -> dict[str, Any]:
    """Return the build as plain values; `build_from_json` reads them back to the same build."""
    return _to_plain(asdict(build))  # type: ignore[no-any-return]


def build_from_json(value: Mapping[str, Any]) -> Build:
    name = _text(value, "name", "build", required=True)
    where = f"build {name}"
    return Build(
        name=name,
        version=_text(value, "version", where),
        source=parse_source(_require_mapping(value.get("source"), where), f"{where}: source"),
        manifest=parse_manifest(_require_mapping(value.get("manifest") or {}, where), f"{where}: manifest"),
        meta=_text(value, "meta", where),
        alias=_text(value, "alias", where),
        gallery=_text(value, "gallery", where),
    )


def parse_source(value: Mapping[str, Any], where: str) -> BackendSource:
    kind = _text(value, "kind", where, required=True)
    if kind not in set(SourceKind):
        raise make_gallery_error(where, f"kind {kind!r} is not one of {', '.join(SourceKind)}")
    source = BackendSource(
        kind=SourceKind(kind),
        uri=_text(value, "uri", where),
        mirrors=_get_texts(value, "mirrors", where),
        sha256=_text(value, "sha256", where).lower(),
        requirements=_get_texts(value, "requirements", where),
        python=_text(value, "python", where),
        size_bytes=_get_size(value, "size_bytes", where),
    )
    if source.kind is SourceKind.PYPI and not source.requirements:
        raise make_gallery_error(where, "a pypi source needs requirements")
    if source.kind is not SourceKind.PYPI and not source.uri:
        raise make_gallery_error(where, f"a source of kind {kind} needs a uri")
    if source.sha256 and not _is_sha256(source.sha256):
        raise make_gallery_error(where, "sha256 is not 64 hexadecimal digits")
    return source


def parse_manifest(value: Mapping[str, Any], where: str) -> Manifest:
    ready = _require_mapping(value.get("ready") or {}, f"{where}: ready")
    api_key = _text(value, "api_key", where) or "none"
    if api_key not in API_KEY_MODES:
        raise make_gallery_error(where, f"api_key {api_key!r} is not one of {', '.join(API_KEY_MODES)}")
    runs_on = _text(value, "runs_on", where)
    if runs_on not in RUNS_ON:
        raise make_gallery_error(where, f"runs_on is {runs_on!r}; it is {PROCESSOR}, or left out")
    options = _require_mapping(value.get("options") or {}, f"{where}: options")
    return Manifest(
        command=_get_texts(value, "command", where),
        launcher=_text(value, "launcher", where),
        environment=_text_map(value, "environment", where),
        check=_get_texts(value, "check", where),
        ready=ReadyProbe(
            path=_text(ready, "path", where) or _ANY_PROBE.path, timeout_s=_get_seconds(ready, "timeout_s", where)
        ),
        api_key=api_key,
        serves=_get_texts(value, "serves", where),
        ignores=_get_texts(value, "ignores", where),
        formats=_get_texts(value, "formats", where),
        runs_on=runs_on,
        options={str(name): _get_texts(options, str(name), f"{where}: options") for name in options},
        adapters=_parse_adapters(value, f"{where}: adapters"),
        metrics=_text_map(value, "metrics", where),
        errors=dict(USUAL_SIGNS) | _parse_error_patterns(value, f"{where}: errors"),
    )


def _parse_adapters(value: Mapping[str, Any], where: str) -> AdapterSupport:
    found = _require_mapping(value.get("adapters") or {}, where)
    select = _text(found, "select", where)
    if select not in SELECTIONS:
        raise make_gallery_error(where, f"select {select!r} is not one of {', '.join(SELECTIONS[1:])}")
    return AdapterSupport(
        select=select, enable=_get_texts(found, "enable", where), each=_get_texts(found, "each", where)
    )


def find_manifest_problem(manifest: Manifest) -> str:
    """Return what keeps an engine with this manifest from running, or from taking its options; empty if nothing
    does.

    Not part of reading a manifest: a manifest that an earlier version has installed stays readable.
    """
    if not manifest.command:
        return "the manifest has no command"
    if manifest.options and OPTIONS not in manifest.command:
        return f"the manifest has options, and no {OPTIONS} in its command"
    return ""


def _parse_error_patterns(value: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    found = _require_mapping(value.get("errors") or {}, where)
    signs = {str(code): _get_texts(found, str(code), where) for code in found}
    for sign in (each for several in signs.values() for each in several):
        try:
            re.compile(sign)
        except re.error as error:
            raise make_gallery_error(where, f"{sign!r} is not a regular expression: {error}") from error
    return signs


def make_gallery_error(where: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"{where}: {what}.", code="bad_gallery")


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    # A StrEnum is a subclass of str; JSON needs the plain text.
    return str(value) if isinstance(value, str) else value


def _text(value: Mapping[str, Any], key: str, where: str, *, required: bool = False) -> str:
    found = value.get(key)
    if found is None or found == "":
        if required:
            raise make_gallery_error(where, f"{key} is missing")
        return ""
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        # YAML reads an unquoted 1.10 as a number; the version would silently become 1.1.
        raise make_gallery_error(where, f"{key} is the number {found}; put it in quotes")
    if not isinstance(found, str):
        raise make_gallery_error(where, f"{key} is not a text")
    return found.strip()


def _get_texts(value: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = value.get(key)
    if found is None:
        return ()
    if isinstance(found, str):
        return tuple(line.strip() for line in found.splitlines() if line.strip())
    if not isinstance(found, Sequence) or not all(isinstance(item, str) for item in found):
        raise make_gallery_error(where, f"{key} is not a list of texts")
    return tuple(found)


def _text_map(value: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    found = _require_mapping(value.get(key) or {}, f"{where}: {key}")
    return {str(name): _text(found, str(name), f"{where}: {key}") for name in found}


def _require_mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise make_gallery_error(where, "is not a mapping")
    return value


def _get_size(value: Mapping[str, Any], key: str, where: str) -> int | None:
    found = value.get(key)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise make_gallery_error(where, f"{key} is not a number of bytes")
    return found


def _get_seconds(value: Mapping[str, Any], key: str, where: str) -> float:
    found = value.get(key)
    if found is None:
        return _ANY_PROBE.timeout_s
    if not isinstance(found, (int, float)) or isinstance(found, bool) or found <= 0:
        raise make_gallery_error(where, f"{key} is not a number of seconds")
    return float(found)


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and all(character in "0123456789abcdef" for character in text)
