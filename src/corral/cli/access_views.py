"""Join tokens and keys as text, and the one that a person means by an id, a name or a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from urllib.parse import urlsplit

from corral.cli import render
from corral.domain.errors import InvalidRequest
from corral.wire.access import KeyOut, TokenOut

T = TypeVar("T", TokenOut, KeyOut)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


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
            render.until(key.expires_at, now),
            f"{render.age(key.created_at, now)} ago by {key.created_by}",
        ]
        for key in keys
    ]
    return render.table(("ID", "NAME", "KEY", "STATE", "EXPIRES", "CREATED"), rows, colour=colour)


def join_command(url: str, token: str) -> str:
    return f"corral worker --join {url} --token {token}"


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK


def pick_id(items: Sequence[T], said: str) -> str:
    """The id of the one that was meant. Unknown words go to the frontend as they are: it knows best."""
    if any(item.id == said for item in items):
        return said
    meant = [item for item in items if said in (item.name, item.prefix) and item.state != "revoked"]
    if len(meant) > 1:
        ids = ", ".join(item.id for item in meant)
        raise InvalidRequest(f"{said!r} could be any of {len(meant)}.", hint=f"Say one of the ids: {ids}")
    return meant[0].id if meant else said


def lifetime_s(text: str | None) -> float | None:
    """`1h`, `30d`, a number of seconds; `never` for no end."""
    # The settings' own grammar, so that a duration is written in one way everywhere.
    from corral.app.settings.values import parse_duration_s

    if text is None or text.lower() == "never":
        return None
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise InvalidRequest(f"--expires {error}", hint="`never` makes it last until it is revoked.") from error
