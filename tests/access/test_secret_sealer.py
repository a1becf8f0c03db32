"""Sealed values: they open for their owner, name and key, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.access.secret_sealer import SealedValue, SecretSealer, SecretUnreadable
from corral.adapters.system import SystemIdGenerator
from corral.domain.access import CLUSTER, Owner
from corral.domain.secret import SecretValue
from corral.policy.sealing_keys import SealingKey, make_sealing_key

FIRST, SECOND = make_sealing_key(bytes(range(32))), make_sealing_key(bytes(range(1, 33)))
ADA = Owner(user_id="00000000-0000-4000-8000-000000000001")
SEALED_BEFORE = (
    "01eec824d93cdb6da9fce6f62fe38d1d7ac44eba091e4b52ecb767893eca68432668257080e12863e2db1c390f"
    "bfba9ec567c5d1572262588c80918e5483a1dd7d651edfc84d8ee90b"
)
PLAIN = SecretValue("hf_the-value-that-nobody-may-see")


def make_sealer(*keys: SealingKey) -> SecretSealer:
    return SecretSealer(keys, SystemIdGenerator())


@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1),
    name=st.from_regex(r"\A[A-Za-z0-9_.-]{1,100}\Z"),
    owner=st.one_of(st.uuids().map(lambda one: Owner(user_id=str(one))), st.just(CLUSTER)),
)
def test_sealed_value_opens_as_it_was(text: str, name: str, owner: Owner) -> None:
    sealer = make_sealer(FIRST)
    sealed = sealer.seal(owner, name, SecretValue(text))
    assert sealer.open(owner, name, sealed) == SecretValue(text)
    assert len(text) < 4 or text.encode() not in sealed.content
    assert repr(sealed) == f"SealedValue(key_id='{FIRST.id}')"


def test_same_value_is_sealed_differently_each_time() -> None:
    sealer = make_sealer(FIRST)
    assert len({sealer.seal(ADA, "hub", PLAIN).content for _ in range(20)}) == 20


@pytest.mark.behaviour("SEC-4")
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ADA, "other"),
        (CLUSTER, "hub"),
        (Owner(key_id=ADA.user_id), "hub"),
        (Owner(user_id="00000000-0000-4000-8000-000000000002"), "hub"),
    ],
)
def test_value_that_was_copied_to_another_name_or_owner_does_not_open(owner: Owner, name: str) -> None:
    sealer = make_sealer(FIRST)
    with pytest.raises(SecretUnreadable, match=f"The secret {name} cannot be read: its row is damaged, or was copied"):
        sealer.open(owner, name, sealer.seal(ADA, "hub", PLAIN))


@pytest.mark.behaviour("SEC-4")
def test_value_does_not_open_with_another_key() -> None:
    sealed = make_sealer(FIRST).seal(ADA, "hub", PLAIN)
    with pytest.raises(SecretUnreadable) as caught:
        make_sealer(SECOND).open(ADA, "hub", sealed)
    assert caught.value.message == (
        f"The secret hub cannot be read: it was sealed with the key {FIRST.id}, which is not in the file."
    )
    assert (caught.value.slug, caught.value.status) == ("secret_unreadable", 503)
    assert "secrets_key_file" in str(caught.value.hint)
    # Also if the row is changed to name the key that the frontend has.
    with pytest.raises(SecretUnreadable) as caught:
        make_sealer(SECOND).open(ADA, "hub", replace(sealed, key_id=SECOND.id))
    assert PLAIN.text not in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.__cause__ is None


@pytest.mark.behaviour("SEC-6")
def test_first_key_seals_and_all_keys_open() -> None:
    old, both = make_sealer(FIRST), make_sealer(SECOND, FIRST)
    assert both.open(ADA, "hub", old.seal(ADA, "hub", PLAIN)) == PLAIN
    sealed = both.seal(ADA, "hub", PLAIN)
    assert sealed.key_id == SECOND.id
    assert make_sealer(SECOND).open(ADA, "hub", sealed) == PLAIN


@given(position=st.integers(min_value=0, max_value=79), change=st.integers(min_value=1, max_value=255))
def test_value_that_was_changed_by_one_byte_does_not_open(position: int, change: int) -> None:
    sealer = make_sealer(FIRST)
    sealed = sealer.seal(ADA, "hub", SecretValue("x" * 39))
    assert len(sealed.content) == 80
    content = bytearray(sealed.content)
    content[position] ^= change
    with pytest.raises(SecretUnreadable):
        sealer.open(ADA, "hub", replace(sealed, content=bytes(content)))


@given(length=st.integers(min_value=0, max_value=79))
def test_value_that_was_cut_off_does_not_open(length: int) -> None:
    sealer = make_sealer(FIRST)
    content = sealer.seal(ADA, "hub", SecretValue("x" * 39)).content[:length]
    with pytest.raises(SecretUnreadable):
        sealer.open(ADA, "hub", SealedValue(content=content, key_id=FIRST.id))


def test_value_that_an_earlier_version_sealed_opens() -> None:
    """Fixes the form of what is stored, the associated data and the derivation of a key's id."""
    sealed = SealedValue(content=bytes.fromhex(SEALED_BEFORE), key_id="ec7643f3afd3870b")
    assert make_sealer(FIRST).open(ADA, "hub", sealed) == PLAIN
