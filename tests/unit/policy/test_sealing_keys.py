"""The file with the keys that seal secrets."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.policy.sealing_keys import KEYS_MAX, make_sealing_key, parse_sealing_keys

SECRETS = st.binary(min_size=32, max_size=32)


@given(secret=SECRETS)
def test_key_is_read_as_hexadecimal_digits_or_base64_in_both_alphabets(secret: bytes) -> None:
    forms = [secret.hex(), secret.hex().upper()]
    for encode in (b64encode, urlsafe_b64encode):
        padded = encode(secret).decode()
        forms += [padded, padded.rstrip("=")]
    for form in forms:
        assert parse_sealing_keys(f"{form}\n") == (make_sealing_key(secret),)


@given(secrets=st.lists(SECRETS, min_size=1, max_size=KEYS_MAX, unique=True))
def test_keys_stay_in_the_order_of_the_file(secrets: list[bytes]) -> None:
    lines = [f"\n# a comment, with ümlauts\n  {secret.hex()}  \r\n" for secret in secrets]
    assert [key.secret for key in parse_sealing_keys("".join(lines))] == secrets


def test_key_id_depends_on_the_key_alone_and_does_not_show_it() -> None:
    key = make_sealing_key(bytes(range(32)))
    # Stored with every secret: another way to derive it would make all of them unreadable.
    assert key.id == "ec7643f3afd3870b"
    assert repr(key) == f"SealingKey(id='{key.id}')"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no key"),
        ("# nothing\n\n", "has no key"),
        ("PLAIN", "has a line 1 that is not a key"),
        (f"{'0' * 64}\n{'PLAIN' * 13}", "has a line 2 that is not a key"),
        ("PLAIN" * 8 + "!!!", "has a line 1 that is not a key"),
        (f"{'0 ' * 32}", "has a line 1 that is not a key"),
        ("0" * 62, "has a line 1 that is not a key"),
        (f"{'0' * 64}\n{'A' * 43}", "has the key of line 2 twice"),
        ("\n".join(f"{number:064x}" for number in range(KEYS_MAX + 1)), "has more than 16 keys"),
    ],
)
def test_invalid_key_file_is_refused_without_repeating_it(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        parse_sealing_keys(text)
    assert "PLAIN" not in str(caught.value)
