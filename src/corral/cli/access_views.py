"""Join tokens, keys and users as text, and the one that a person means by an id, a name or a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from corral.cli import render
from corral.domain.errors import InvalidRequest
from corral.wire.access import KeyOut, LimitIn, LimitOut, TokenOut
from corral.wire.join import JoinOut
from corral.wire.users import UserOut

T = TypeVar("T", TokenOut, KeyOut)
B = TypeVar("B", bound=BaseModel)
# Requests in a minute, tokens in a minute, a day and a month.
Numbers = tuple[int | None, int | None, int | None, int | None]


def token_list(tokens: Sequence[TokenOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            token.id,
            token.name,
            f"{token.prefix}…",
            token.state,
            f"{token.uses}/{token.max_uses if token.max_uses is not None else 'any'}",
            render.yes_no(token.approves),
            render.until(token.expires_at, now),
            f"{render.age(token.created_at, now)} ago by {token.created_by}",
        ]
        for token in tokens
    ]
    headers = ("ID", "NAME", "TOKEN", "STATE", "USES", "APPROVES", "EXPIRES", "CREATED")
    return render.table(headers, rows, colour=colour)


def key_list(keys: Sequence[KeyOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            key.id,
            key.name,
            f"{key.prefix}…",
            key.state,
            key.scope,
            ", ".join(key.models) if key.models is not None else "every",
            _last_used(key, now),
            render.until(key.expires_at, now),
            f"{render.age(key.created_at, now)} ago by {key.created_by}",
        ]
        for key in keys
    ]
    headers = ("ID", "NAME", "KEY", "STATE", "SCOPE", "MODELS", "LAST USED", "EXPIRES", "CREATED")
    return render.table(headers, rows, colour=colour)


def _last_used(key: KeyOut, now: datetime) -> str:
    return f"{render.age(key.last_used_at, now)} ago" if key.last_used_at else "never"


def made_key(key: KeyOut, now: datetime) -> str:
    """Say what a key that was just made is good for, and until when."""
    models = "every model" if key.models is None else ", ".join(key.models) or "no model"
    may = {
        "infer": f"may ask {models}",
        "operate": "may run the cluster: nodes, engines, models",
        "admin": "is an admin's and may do everything",
    }
    expires = render.until(key.expires_at, now)
    words = may.get(key.scope, "")
    return render.clean(f"{key.name} {words} (scope {key.scope}). It expires {expires} and is not shown again.")


def key_in_full(key: KeyOut, now: datetime, *, colour: bool) -> str:
    facts = {
        "id": key.id,
        "name": key.name,
        "key": f"{key.prefix}…",
        "state": key.state,
        "scope": key.scope,
        "models": (", ".join(key.models) or "none") if key.models is not None else "every one",
        "last used": _last_used(key, now),
        "expires": render.until(key.expires_at, now),
        "created": f"{render.age(key.created_at, now)} ago by {key.created_by}",
    }
    if key.previous_until is not None:
        facts["old secret"] = f"ends {render.until(key.previous_until, now)}"
    if key.user_name is not None:
        facts["user"] = key.user_name
    if not key.limits:
        return render.facts(facts | {"limits": "none"})
    rows = [
        [limit.model or "all together", *("" if number is None else str(number) for number in numbers_of(limit))]
        for limit in key.limits
    ]
    headers = ("MODEL", "REQUESTS/MIN", "TOKENS/MIN", "TOKENS/DAY", "TOKENS/MONTH")
    return f"{render.facts(facts)}\n\n{render.table(headers, rows, colour=colour)}"


def numbers_of(limit: LimitOut) -> Numbers:
    return (limit.requests_per_minute, limit.tokens_per_minute, limit.tokens_per_day, limit.tokens_per_month)


def a_limit(model: str, numbers: Numbers) -> LimitIn:
    names = ("requests_per_minute", "tokens_per_minute", "tokens_per_day", "tokens_per_month")
    said = {name: number for name, number in zip(names, numbers, strict=True) if number is not None}
    return checked(LimitIn, model=model, **said)


def user_list(users: Sequence[UserOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            user.id,
            user.name,
            user.scope,
            "disabled" if user.disabled_at else "active",
            "password" if user.has_password else user.issuer or "keys only",
            f"{render.age(user.created_at, now)} ago by {user.created_by}",
        ]
        for user in users
    ]
    return render.table(("ID", "NAME", "SCOPE", "STATE", "COMES IN BY", "CREATED"), rows, colour=colour)


def checked(kind: type[B], **said: Any) -> B:
    """What shall be sent, with exactly these fields; what is wrong with one is said as the frontend would."""
    try:
        return kind(**said)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{name}: {first['msg']}.") from None


def patterns(said: str) -> list[str]:
    return [pattern.strip() for pattern in said.split(",") if pattern.strip()]


def write_join(join: JoinOut, token: str) -> str:
    """Return what a person runs on the machine that is to join."""
    lines = (
        "It is not shown again. On the machine that is to join (it needs Python 3.11 or newer):",
        f"  {with_token(join.command, token)}",
        "Without curl:",
        f"  {with_token(join.command_without_curl, token)}",
        "Where Corral is installed already:",
        f"  {with_token(join.worker_command, token)}",
        f"It installs Corral {join.version} from this cluster; sha256 of its wheel: {join.wheel_sha256}",
    )
    return "\n\n".join(lines)


def join_fields(join: JoinOut, token: str) -> dict[str, str | None]:
    """Return what `--json` says beside the token."""
    return {
        "join_command": with_token(join.command, token),
        "worker_command": with_token(join.worker_command, token),
        "join_problem": join.problem,
        "wheel_sha256": join.wheel_sha256,
    }


def with_token(command: str, token: str) -> str:
    return command.replace("{token}", token)


def pick_id(items: Sequence[T], said: str) -> str:
    """The id of the one that was meant. Unknown words go to the frontend as they are: it knows best."""
    if any(item.id == said for item in items):
        return said
    meant = [item for item in items if said in (item.name, item.prefix) and item.state != "revoked"]
    if len(meant) > 1:
        ids = ", ".join(item.id for item in meant)
        raise InvalidRequest(f"{said!r} could be any of {len(meant)}.", hint=f"Say one of the ids: {ids}")
    return meant[0].id if meant else said


def lifetime_s(text: str | None, flag: str = "--expires") -> float | None:
    """`1h`, `30d`, a number of seconds; `never` for no end."""
    # The settings' own grammar, so that a duration is written in one way everywhere.
    from corral.app.settings.values import parse_duration_s

    if text is None or text.lower() == "never":
        return None
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise InvalidRequest(f"{flag} {error}", hint="`never` makes it last until it is revoked.") from error
