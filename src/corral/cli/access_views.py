"""Renders join tokens, keys and users as text, and resolves an id, a name or a prefix to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from corral.cli import render
from corral.domain.errors import InvalidRequest
from corral.domain.state_words import SECRET_WORDS, find_word
from corral.wire.access import JoinOut, KeyOut, LimitIn, LimitOut, TokenOut, UserOut

T = TypeVar("T", TokenOut, KeyOut)
B = TypeVar("B", bound=BaseModel)
# Limits of a key: requests per minute, and tokens per minute, day and month.
LimitNumbers = tuple[int | None, int | None, int | None, int | None]


def format_token_list(tokens: Sequence[TokenOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            token.id,
            token.name,
            f"{token.prefix}…",
            find_word(SECRET_WORDS, token.state),
            f"{token.uses}/{token.max_uses if token.max_uses is not None else 'any'}",
            render.format_yes_no(token.approves),
            render.format_until(token.expires_at, now),
            f"{render.format_age(token.created_at, now)} ago by {token.created_by}",
        ]
        for token in tokens
    ]
    headers = ("ID", "NAME", "TOKEN", "STATE", "USES", "APPROVES", "EXPIRES", "CREATED")
    return render.format_table(headers, rows, colour=colour)


def format_key_list(keys: Sequence[KeyOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            key.id,
            key.name,
            f"{key.prefix}…",
            find_word(SECRET_WORDS, key.state),
            key.scope,
            ", ".join(key.models) if key.models is not None else "every",
            _format_last_used(key, now),
            render.format_until(key.expires_at, now),
            f"{render.format_age(key.created_at, now)} ago by {key.created_by}",
        ]
        for key in keys
    ]
    headers = ("ID", "NAME", "KEY", "STATE", "SCOPE", "MODELS", "LAST USED", "EXPIRES", "CREATED")
    return render.format_table(headers, rows, colour=colour)


def _format_last_used(key: KeyOut, now: datetime) -> str:
    return f"{render.format_age(key.last_used_at, now)} ago" if key.last_used_at else "never"


def describe_created_key(key: KeyOut, now: datetime) -> str:
    """Return a sentence about a new key: what it allows, and until when."""
    models = "every model" if key.models is None else ", ".join(key.models) or "no model"
    may = {
        "infer": f"may ask {models}",
        "operate": "may run the cluster: nodes, engines, models",
        "admin": "is an admin's and may do everything",
    }
    expires = render.format_until(key.expires_at, now)
    words = may.get(key.scope, "")
    return render.clean_text(f"{key.name} {words} (scope {key.scope}). It expires {expires} and is not shown again.")


def format_key(key: KeyOut, now: datetime, *, colour: bool) -> str:
    facts = {
        "id": key.id,
        "name": key.name,
        "key": f"{key.prefix}…",
        "state": find_word(SECRET_WORDS, key.state),
        "scope": key.scope,
        "models": (", ".join(key.models) or "none") if key.models is not None else "every one",
        "last used": _format_last_used(key, now),
        "expires": render.format_until(key.expires_at, now),
        "created": f"{render.format_age(key.created_at, now)} ago by {key.created_by}",
    }
    if key.previous_until is not None:
        facts["old secret"] = f"ends {render.format_until(key.previous_until, now)}"
    if key.user_name is not None:
        facts["user"] = key.user_name
    if not key.limits:
        return render.format_facts(facts | {"limits": "none"})
    rows = [
        [limit.model or "all together", *("" if number is None else str(number) for number in get_limit_numbers(limit))]
        for limit in key.limits
    ]
    headers = ("MODEL", "REQUESTS/MIN", "TOKENS/MIN", "TOKENS/DAY", "TOKENS/MONTH")
    return f"{render.format_facts(facts)}\n\n{render.format_table(headers, rows, colour=colour)}"


def get_limit_numbers(limit: LimitOut) -> LimitNumbers:
    return (limit.requests_per_minute, limit.tokens_per_minute, limit.tokens_per_day, limit.tokens_per_month)


def make_limit(model: str, numbers: LimitNumbers) -> LimitIn:
    names = ("requests_per_minute", "tokens_per_minute", "tokens_per_day", "tokens_per_month")
    limits = {name: number for name, number in zip(names, numbers, strict=True) if number is not None}
    return make_checked(LimitIn, model=model, **limits)


def format_user_list(users: Sequence[UserOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            user.id,
            user.name,
            user.scope,
            "disabled" if user.disabled_at else "active",
            "password" if user.has_password else user.issuer or "keys only",
            f"{render.format_age(user.created_at, now)} ago by {user.created_by}",
        ]
        for user in users
    ]
    return render.format_table(("ID", "NAME", "SCOPE", "STATE", "COMES IN BY", "CREATED"), rows, colour=colour)


def make_checked(kind: type[B], **fields: Any) -> B:
    """Return a validated request body with exactly these fields. An invalid field raises the same error as the frontend
    would."""
    try:
        return kind(**fields)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{name}: {first['msg']}.") from None


def parse_patterns(text: str) -> list[str]:
    return [pattern.strip() for pattern in text.split(",") if pattern.strip()]


def format_join(join: JoinOut, token: str) -> str:
    """Return the commands to run on the machine that is to join."""
    lines = (
        "It is not shown again. On the machine that is to join (it needs Python 3.11 or newer):",
        f"  {insert_token(join.command, token)}",
        "Without curl:",
        f"  {insert_token(join.command_without_curl, token)}",
        "Where Corral is installed already:",
        f"  {insert_token(join.worker_command, token)}",
        f"It installs Corral {join.version} from this cluster; sha256 of its wheel: {join.wheel_sha256}",
    )
    return "\n\n".join(lines)


def make_join_fields(join: JoinOut, token: str) -> dict[str, str | None]:
    """Return the fields that `--json` prints besides the token."""
    return {
        "join_command": insert_token(join.command, token),
        "worker_command": insert_token(join.worker_command, token),
        "join_problem": join.problem,
        "wheel_sha256": join.wheel_sha256,
    }


def insert_token(command: str, token: str) -> str:
    return command.replace("{token}", token)


def pick_id(items: Sequence[T], text: str) -> str:
    """Return the id of the item that `text` names. Unknown texts are returned as they are, for the frontend to
    judge."""
    if any(item.id == text for item in items):
        return text
    meant = [item for item in items if text in (item.name, item.prefix) and item.state != "revoked"]
    if len(meant) > 1:
        ids = ", ".join(item.id for item in meant)
        raise InvalidRequest(f"{text!r} could be any of {len(meant)}.", hint=f"Say one of the ids: {ids}")
    return meant[0].id if meant else text


def parse_lifetime_s(text: str | None, flag: str = "--expires") -> float | None:
    """Parse a lifetime: `1h`, `30d`, a number of seconds, or `never`, which gives None."""
    from corral.domain.duration import parse_duration_s

    if text is None or text.lower() == "never":
        return None
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise InvalidRequest(f"{flag} {error}", hint="`never` makes it last until it is revoked.") from error
