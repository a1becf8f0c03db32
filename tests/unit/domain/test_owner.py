"""Whom something belongs to."""

from __future__ import annotations

import pytest

from corral.domain.access import CLUSTER, Owner, Principal


@pytest.mark.parametrize(
    ("owner", "text"),
    [(Owner(user_id="7"), "user:7"), (Owner(key_id="7"), "key:7"), (CLUSTER, "cluster"), (Owner(), "cluster")],
)
def test_owner_has_a_text_form_that_is_stored(owner: Owner, text: str) -> None:
    assert str(owner) == text


def test_owner_is_not_a_user_and_a_key_at_once() -> None:
    with pytest.raises(AssertionError):
        Owner(user_id="1", key_id="2")


def test_principal_owns_as_its_user_and_as_its_key_if_it_has_no_user() -> None:
    assert Principal(key_id="k", name="shop").owner == Owner(key_id="k")
    assert Principal(key_id="k", name="shop", user_id="u").owner == Owner(user_id="u")
    assert Principal(key_id="user:u", name="ada", user_id="u").owner == Owner(user_id="u")
