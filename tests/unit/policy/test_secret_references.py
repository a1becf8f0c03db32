"""References to secrets: which of two places they mean, and errors that name the problem and not the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.domain.secret import SecretScope
from corral.policy.secret_references import SecretReference, parse_secret_reference

NAMES = st.from_regex(r"\A[A-Za-z0-9_.-]{1,100}\Z").filter(lambda name: name not in (".", ".."))


@pytest.mark.behaviour("SEC-11")
@pytest.mark.parametrize(
    ("text", "scope"), [("secret:hub-token", SecretScope.OWN), ("cluster-secret:hub-token", SecretScope.CLUSTER)]
)
def test_reference_says_whose_secret_it_means(text: str, scope: SecretScope) -> None:
    assert parse_secret_reference(text) == SecretReference(name="hub-token", scope=scope)


@given(name=NAMES, scope=st.sampled_from(SecretScope))
def test_reference_is_parsed_from_its_own_text(name: str, scope: SecretScope) -> None:
    reference = SecretReference(name=name, scope=scope)
    assert parse_secret_reference(str(reference)) == reference


@pytest.mark.behaviour("SEC-11")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no colon"),
        ("hf_PLAIN", "has no colon"),
        ("https://PLAIN", "begins neither with secret: nor with cluster-secret:"),
        (" secret:PLAIN", "no space before or after"),
        ("secret:PLAIN\n", "invalid name after the colon"),
        ("Secret:PLAIN", "begins with secret: in exactly this spelling"),
        ("secrets:PLAIN", "begins with secret: in exactly this spelling"),
        ("cluster_secret:PLAIN", "begins with cluster-secret: in exactly this spelling"),
        ("secret", "begins with secret: in exactly this spelling"),
        ("secret:", "no name after the colon"),
        ("secret:two PLAIN", "invalid name after the colon"),
        ("secret:a:PLAIN", "invalid name after the colon"),
        ("secret:..", "invalid name after the colon"),
        ("cluster-secret:" + "PLAIN" * 21, "1 to 100 letters"),
    ],
)
def test_reference_error_names_the_problem_and_not_the_text(text: str, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_secret_reference(text)
    assert sentence in caught.value.message
    assert caught.value.slug == "bad_secret_reference"
    assert "corral secrets set" in str(caught.value.hint)
    assert "PLAIN" not in f"{caught.value.message} {caught.value.hint}"


@given(text=st.text())
def test_text_that_is_no_reference_is_refused_with_one_code(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_secret_reference(f"!{text}")
    assert caught.value.slug == "bad_secret_reference"
