"""Checks values against JSON schemas that servers and callers bring: arguments of tools, answers of models.

Schemas are not trusted. Nothing is fetched for a reference, regular expressions are not run (one of them could stop the
whole process), and a schema that is broken, very large, or takes too long checks nothing: the server checks its
arguments itself. A few references that refer to each other are enough to keep a validator busy for ever, so a check is
interrupted after a fifth of a second of processor time. So long the event loop stands still.

Limit: call `find_problem` in the main thread only, where Python runs the handlers of signals.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import FrameType
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import extend, validator_for
from referencing import Registry

from corral.runtime.attempt import AttemptFailure, attempt_sync

SCHEMA_CHARACTERS_MAX = 128 * 1024
# Enough for some ten thousand values of objects and lists.
CHECK_CPU_S = 0.2
_PROBLEM_CHARACTERS_MAX = 500
# `additionalProperties` runs the expressions of `patternProperties`. A part with a `$schema` of its own is checked with
# all that its dialect has, expressions included.
_REFUSED_KEYS = ('"patternProperties"', '"$schema"')


class _CheckTooLongError(Exception):
    """A schema takes too long to check a value."""


def find_problem(schema: Mapping[str, Any], value: object) -> str | None:
    """Return a sentence about the first thing that does not match; None if the value is fine, or cannot be checked."""
    body = {key: part for key, part in schema.items() if key != "$schema"}
    text = json.dumps(body)
    if len(text) > SCHEMA_CHARACTERS_MAX or any(key in text for key in _REFUSED_KEYS):
        return None
    previous = signal.signal(signal.SIGVTALRM, _interrupt_check)
    # Again and again: Python drops an exception that is raised while it removes an object.
    signal.setitimer(signal.ITIMER_VIRTUAL, CHECK_CPU_S, CHECK_CPU_S)
    try:
        result = attempt_sync(lambda: _check(schema, body, value))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
    return None if isinstance(result, AttemptFailure) else result.value


def _check(schema: Mapping[str, Any], body: Mapping[str, Any], value: object) -> str | None:
    validator = _get_validator(validator_for(schema, default=Draft202012Validator))
    error = best_match(validator(body, registry=Registry()).iter_errors(value))
    if error is None:
        return None
    place = "/".join(str(part) for part in error.absolute_path)
    return (f"{place}: {error.message}" if place else error.message)[:_PROBLEM_CHARACTERS_MAX]


def _interrupt_check(number: int, frame: FrameType | None) -> None:
    """Raise an error if a check is what the signal has interrupted, rather than what comes before or after it."""
    del number
    while frame is not None:
        if frame.f_code is _check.__code__:
            raise _CheckTooLongError
        frame = frame.f_back


@lru_cache(maxsize=16)
def _get_validator(kind: Any) -> Any:
    return extend(kind, {"pattern": _ignore_keyword})  # type: ignore[no-untyped-call]  # of the library


def _ignore_keyword(*_: object) -> Iterator[Any]:
    return iter(())
