"""Messages made from the contract alone, and what is wrong with those of the present code in the eyes of the version
before. Nothing here knows a class of Corral: a shape is a mapping of fields, a type is a few words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from corral.bus.codec import decode, encode
from tools.contract import ContractMessage, MessageTransport

Shapes = Mapping[str, Mapping[str, str]]

NEEDED = ", needed"
MOMENT = "2026-01-02T03:04:05Z"
# What no version has sent so far.
STRANGE = "a_field_of_a_later_version"
_BOUNDED = re.compile(r"(?P<word>\w+)(?:\((?P<low>\d*)\.\.(?P<high>\d*)\)|\((?P<special>\w+)\))?(?: of (?P<inner>.+))?")


class Form(StrEnum):
    """How much of a message there is."""

    # Only what a reader refuses to do without, and of that as little as can be.
    SMALLEST = "smallest"
    # Every field, and of that as much as fits.
    FULLEST = "fullest"
    # Every field, and nothing where nothing may be.
    EMPTIEST = "emptiest"


def made(kind: str, shapes: Shapes, form: Form, *, strange: bool = False) -> Any:
    """A value of this type; `strange` adds a field that nobody knows to every object with known fields."""
    choices = kind.removesuffix(NEEDED).split(" or ")
    if "null" in choices and form is not Form.FULLEST:
        return None
    word, low, high, special, inner = _parts(choices[0])
    is_small = form is Form.SMALLEST
    if word in shapes:
        fields = {
            name: made(text, shapes, form, strange=strange)
            for name, text in shapes[word].items()
            if not is_small or text.endswith(NEEDED)
        }
        return fields | ({STRANGE: {"as": ["it", "likes"]}} if strange else {})
    if word == "list":
        return [] if is_small else [made(inner, shapes, form, strange=strange)]
    if word == "map":
        return {} if is_small else {"key": made(inner, shapes, form, strange=strange)}
    if special == "sha256":
        return "a" * 64
    return _plain(word, low, high, is_small=is_small)


def _plain(word: str, low: int, high: int, *, is_small: bool) -> Any:
    if word == "text":
        return "x" * (low if is_small else high or max(low, 4))
    values = {
        "integer": low if is_small else high or 7,
        "number": 0.5 if is_small else 1.5,
        "truth": not is_small,
        "time": MOMENT,
        "object": {} if is_small else {"key": "value"},
    }
    return values[word]


def problems(value: Any, kind: str, shapes: Shapes, where: str = "") -> Iterator[str]:
    """Why a reader that knows only these shapes would not take this value as what it is."""
    choices = kind.removesuffix(NEEDED).split(" or ")
    if value is None:
        if "null" not in choices:
            yield f"{where} is null"
        return
    word, low, high, _, inner = _parts(choices[0])
    if word in shapes:
        if not isinstance(value, dict):
            yield f"{where} is no object"
            return
        for name, text in shapes[word].items():
            place = f"{where}.{name}".lstrip(".")
            if name in value:
                yield from problems(value[name], text, shapes, place)
            else:
                yield f"{place} is not sent"
    elif word in ("list", "map"):
        if not isinstance(value, list if word == "list" else dict):
            yield f"{where} is no {word}"
            return
        for item in value.values() if isinstance(value, dict) else value:
            yield from problems(item, inner, shapes, f"{where}[]")
    elif not _is_a(word, value):
        yield f"{where} is no {word}"
    elif word == "text" and not low <= len(value) <= (high or len(value)):
        yield f"{where} may have {len(value)} characters instead of {low}..{high}"
    elif word == "integer" and not low <= value <= (high or value):
        yield f"{where} may be {value} instead of {low}..{high}"


def lost(sent: Any, understood: Any, where: str = "") -> Iterator[str]:
    """Return what was sent and is missing after it was read."""
    if isinstance(sent, dict) and isinstance(understood, dict):
        for name, value in sent.items():
            place = f"{where}.{name}".lstrip(".")
            if name in understood:
                yield from lost(value, understood[name], place)
            else:
                yield f"{place} is not understood any more"
    elif isinstance(sent, list) and isinstance(understood, list) and len(sent) == len(understood):
        for before, after in zip(sent, understood, strict=True):
            yield from lost(before, after, f"{where}[]")
    elif sent != understood:
        yield f"{where} was {str(sent)[:40]!r} and is read as {str(understood)[:40]!r}"


def echoed(exchange: ContractMessage, value: Any) -> Any:
    """The present code reads it and says it again. Whatever error the reader raises is the caller's."""
    data = _adapter.dump_json(value)
    if exchange.transport is MessageTransport.BUS:
        encoded = encode(decode(exchange.kind, data, subject=exchange.place), subject=exchange.place)
        return _adapter.validate_json(encoded)
    adapter = TypeAdapter(exchange.kind)
    # As `client/transport.py` and the framework of the API do it.
    return adapter.dump_python(adapter.validate_json(data), mode="json")


_adapter: TypeAdapter[Any] = TypeAdapter(Any)


def _parts(text: str) -> tuple[str, int, int, str, str]:
    found = _BOUNDED.fullmatch(text)
    assert found is not None, f"the contract has a type that is not understood: {text}"
    return found["word"], int(found["low"] or 0), int(found["high"] or 0), found["special"] or "", found["inner"] or ""


def _is_a(word: str, value: Any) -> bool:
    if word == "time":
        return isinstance(value, str) and datetime.fromisoformat(value) is not None
    kinds: Mapping[str, tuple[type, ...]] = {
        "text": (str,),
        "integer": (int,),
        "number": (int, float),
        "truth": (bool,),
        "object": (dict,),
    }
    return isinstance(value, kinds[word]) and (word == "truth" or not isinstance(value, bool))
