"""Every error on purpose says what kind it is, has a stable code, and a sentence even when nobody gave one."""

from __future__ import annotations

import re

import pytest

from corral.domain import errors as errors_module
from corral.domain.errors import CorralError, StoreUnavailable, Unavailable


def _all_errors(kind: type[CorralError] = CorralError) -> list[type[CorralError]]:
    """Those of this module; other packages may derive their own."""
    here = [kind] if kind.__module__ == errors_module.__name__ else []
    return here + [found for below in kind.__subclasses__() for found in _all_errors(below)]


@pytest.mark.parametrize("kind", _all_errors())
def test_error_without_a_message_uses_its_docstring(kind: type[CorralError]) -> None:
    error = kind()
    assert str(error) == error.message
    assert re.fullmatch(r"[A-Z].*\.", error.message)
    assert re.fullmatch(r"[a-z_]+", error.slug)
    assert 400 <= error.status <= 599
    assert error.retryable == isinstance(error, Unavailable)


def test_codes_are_not_shared_by_accident() -> None:
    codes = [kind.code for kind in _all_errors()]
    assert len(codes) == len(set(codes))


def test_every_error_is_in_the_drawn_tree() -> None:
    drawn = errors_module.__doc__ or ""
    assert [kind.__name__ for kind in _all_errors() if kind.__name__ not in drawn] == []


def test_words_hint_code_and_details_are_kept() -> None:
    error = StoreUnavailable("Gone.", hint="Wait.", code="gone", details={"cause": "x"})
    assert (str(error), error.hint, error.slug, error.details) == ("Gone.", "Wait.", "gone", {"cause": "x"})
    assert error.status == 503
