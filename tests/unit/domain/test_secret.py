"""Names and values that a secret may have."""

from __future__ import annotations

import pytest

from corral.domain.errors import InvalidRequest
from corral.domain.secret import VALUE_BYTES_MAX, SecretValue, check_secret_name, check_secret_value


@pytest.mark.parametrize("name", ["a", "hub-token", "A.b_c-9", "...", "-", "x" * 100])
def test_secret_name_of_allowed_characters_is_accepted(name: str) -> None:
    check_secret_name(name)


@pytest.mark.behaviour("SEC-10")
@pytest.mark.parametrize("name", ["", "x" * 101, "two words", "a/b", "ä", "a\n", "a\x00", ".", "..", "a:b"])
def test_other_secret_name_is_refused_with_the_rule_and_a_hint(name: str) -> None:
    with pytest.raises(InvalidRequest, match="1 to 100 letters, digits, dots, dashes or underscores") as caught:
        check_secret_name(name)
    assert caught.value.slug == "bad_secret_name"
    assert caught.value.hint


@pytest.mark.parametrize("value", ["x", " ", "line\nline\n", "ä" * (VALUE_BYTES_MAX // 2), "x" * VALUE_BYTES_MAX])
def test_secret_value_within_the_limits_is_accepted(value: str) -> None:
    check_secret_value(value)


@pytest.mark.behaviour("SEC-10")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "is empty"),
        ("PLAIN\x00", "holds a NUL character"),
        ("PLAIN\ud800", "is not valid Unicode text"),
        ("PLAIN" + "x" * VALUE_BYTES_MAX, "is larger than 64 KiB"),
        ("ä" * (VALUE_BYTES_MAX // 2) + "P", "is larger than 64 KiB"),
    ],
)
def test_other_secret_value_is_refused_without_repeating_it(value: str, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=f"The value of the secret {problem}") as caught:
        check_secret_value(value)
    assert caught.value.slug == "bad_secret_value"
    assert "PLAIN" not in f"{caught.value.message} {caught.value.hint}"
    # Without the original error, whose text has the value in it.
    assert caught.value.__cause__ is None


def test_secret_value_is_not_in_its_repr() -> None:
    assert repr(SecretValue("PLAIN")) == "SecretValue()"
    assert "PLAIN" not in str(SecretValue("PLAIN"))
