"""Reads a mapping that a person wrote: every wrong value is named with its place, every unknown key with the one
that was probably meant.

The values come from YAML or JSON and may be of any kind; nothing here guesses. A number where a text belongs is taken
as it was written if that is certain, and refused with a hint to put it in quotes if it is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from corral.domain.duration import DURATION_MAX_S, find_seconds
from corral.domain.errors import InvalidRequest

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", start=1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", start=1)}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-zA-Z]{0,3})", re.ASCII)
LARGEST_BYTES = 2**62
TEXT_MAX = 4096


class MappingReader:
    """Reads typed values out of a configuration that a person wrote; its errors name the place and carry `code`."""

    def __init__(self, value: object, where: str, code: str) -> None:
        self.where = where
        self.code = code
        if not isinstance(value, Mapping):
            raise self.make_error("is not a mapping of names to values")
        for key in value:
            if not isinstance(key, str):
                raise self.make_error(f"has the key {key!r}, which is not a text; put it in quotes")
        self.value: Mapping[str, Any] = value

    def make_error(self, what: str, hint: str | None = None) -> InvalidRequest:
        return InvalidRequest(f"{self.where}: {what}.", hint=hint, code=self.code)

    def check_keys(self, keys: Collection[str]) -> None:
        """Raise for any other key, and suggest the one that was probably meant."""
        for key in self.value:
            if key not in keys:
                near = get_close_matches(key, list(keys), n=1, cutoff=0.6)
                hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(sorted(keys))}."
                raise self.make_error(f"{key[:60]!r} is not a setting", hint)

    def read_inner(self, key: str) -> MappingReader:
        """Return a reader of an inner mapping; an absent one is empty."""
        found = self.value.get(key)
        return MappingReader({} if found is None else found, self.describe_place(key), self.code)

    def read_items(self, key: str) -> Sequence[Any]:
        found = self.value.get(key)
        if found is None:
            return ()
        if isinstance(found, str) or not isinstance(found, Sequence):
            raise self.make_error(f"{key} is not a list")
        return found

    def describe_place(self, key: str) -> str:
        return f"{self.where}: {key}"

    def read_text(self, key: str, *, required: bool = False, longest: int = TEXT_MAX) -> str:
        found = self.value.get(key)
        if found is None or found == "":
            if required:
                raise self.make_error(f"{key} is missing")
            return ""
        if not isinstance(found, str):
            raise self.make_error(f"{key} is not a text; put it in quotes")
        if len(found) > longest:
            raise self.make_error(f"{key} is longer than {longest} characters")
        if "\x00" in found or any(0xD800 <= ord(character) <= 0xDFFF for character in found):
            raise self.make_error(f"{key} has characters that cannot be stored")
        return found

    def read_texts(self, key: str, *, most: int = 100) -> tuple[str, ...]:
        """Read a list of texts, or one text; each once."""
        found = self.value.get(key)
        items = (found,) if isinstance(found, str) else self.read_items(key)
        if len(items) > most:
            raise self.make_error(f"{key} has more than {most} items")
        if not all(isinstance(item, str) and item.strip() for item in items):
            raise self.make_error(f"{key} is not a list of texts")
        return tuple(dict.fromkeys(item.strip() for item in items))

    def read_flag(self, key: str, *, default: bool) -> bool:
        found = self.value.get(key)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise self.make_error(f"{key} is neither true nor false")
        return found

    def read_integer(self, key: str, *, least: int, most: int) -> int | None:
        found = self.value.get(key)
        if found is None:
            return None
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.make_error(f"{key} is not a whole number from {least} to {most}")
        return found

    def read_size(self, key: str) -> int | None:
        """Read bytes: a number, or `12GB` (decimal), `12GiB` (binary)."""
        found = self.value.get(key)
        if found is None:
            return None
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= LARGEST_BYTES:
            return found
        match = _SIZE.fullmatch(found.strip()) if isinstance(found, str) else None
        unit = match[2].lower() if match else None
        size = int(float(match[1]) * _UNITS[unit]) if match and unit in _UNITS else None
        if size is None or size > LARGEST_BYTES:
            raise self.make_error(f"{key} is not a size", "Write 12GB, 500MiB or a number of bytes.")
        return size

    def read_seconds(self, key: str, *, zero: bool = False) -> float | None:
        """Read seconds: a number, or `90s`, `5m`, `1h`."""
        found = self.value.get(key)
        if found is None:
            return None
        seconds: float | None = None
        if isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found):
            seconds = float(found)
        elif isinstance(found, str):
            seconds = find_seconds(found.strip())
        if seconds is None or seconds > DURATION_MAX_S or seconds < 0 or (seconds == 0 and not zero):
            raise self.make_error(f"{key} is not a duration", "Write 90s, 5m, 1h or a number of seconds.")
        return seconds

    def read_choice(self, key: str, words: Collection[str], default: str) -> str:
        found = self.read_text(key)
        if not found:
            return default
        self.check_words(key, (found,), words)
        return found

    def check_words(self, key: str, found: Collection[str], words: Collection[str]) -> None:
        for word in found:
            if word not in words:
                near = get_close_matches(word, [one for one in words if one], n=1, cutoff=0.6)
                known = ", ".join(sorted(one for one in words if one))
                hint = f"Did you mean {near[0]}?" if near else f"There are: {known}."
                raise self.make_error(f"{key} has {word[:60]!r}, which is none of its words", hint)


def as_text(value: object) -> str | None:
    """Return a plain value as it would be typed; None for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and math.isfinite(value):
        return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
    return None


def merge_patch(old: Any, change: Any) -> Any:
    """Apply a change: mappings key by key, null deletes a key, anything else replaces."""
    if not isinstance(change, Mapping):
        return change
    result = dict(old) if isinstance(old, Mapping) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result
