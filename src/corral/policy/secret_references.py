"""Parses references to secrets: `secret:NAME` for an own one, `cluster-secret:NAME` for one of the cluster.

A reference always says which of the two it means; no name is looked up in both places. Guarantee: an error never
repeats the text, because people put the secret itself where its reference belongs.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from corral.domain.errors import InvalidRequest
from corral.domain.secret import NAME_MAX, SecretScope, is_secret_name

_PREFIXES = {SecretScope.OWN: "secret", SecretScope.CLUSTER: "cluster-secret"}
_SCOPES = {prefix: scope for scope, prefix in _PREFIXES.items()}
_HINT = "Store the value with `corral secrets set NAME`, and write secret:NAME here, or cluster-secret:NAME."


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """Refers to a stored secret by name, where a configuration needs its value.

    Its text is what `parse_secret_reference` reads.
    """

    name: str
    scope: SecretScope = SecretScope.OWN

    def __str__(self) -> str:
        return f"{_PREFIXES[self.scope]}:{self.name}"


def find_secret_reference(text: str) -> tuple[str, SecretReference] | None:
    """Return the reference in a value and the word before it, as in `Bearer secret:NAME`; None for plain text.

    A reference that is spelled wrong is an error, because the misspelling would be sent in place of the secret.
    """
    word, space, rest = text.rpartition(" ")
    if rest.partition(":")[0] not in _SCOPES:
        return None
    return f"{word}{space}", parse_secret_reference(rest)


def parse_secret_reference(text: str) -> SecretReference:
    """Parse a reference to a secret; raise `InvalidRequest` with what is wrong about it."""
    prefix, colon, name = text.partition(":")
    scope = _SCOPES.get(prefix)
    if scope is None or not colon:
        raise _make_reference_error(_describe_prefix_problem(text, prefix, has_colon=bool(colon)))
    if not name:
        raise _make_reference_error(f"The reference {prefix}: has no name after the colon.")
    if not is_secret_name(name):
        rule = f"the name of a secret has 1 to {NAME_MAX} letters, digits, dots, dashes or underscores"
        raise _make_reference_error(f"The reference {prefix}: has an invalid name after the colon: {rule}.")
    return SecretReference(name=name, scope=scope)


def _describe_prefix_problem(text: str, prefix: str, *, has_colon: bool) -> str:
    if text != text.strip():
        return "A reference to a secret has no space before or after it."
    near = get_close_matches(prefix.lower(), _SCOPES, n=1, cutoff=0.8)
    if near:
        return f"A reference to a secret begins with {near[0]}: in exactly this spelling."
    problem = "begins neither with secret: nor with cluster-secret:" if has_colon else "has no colon"
    return f"This is not a reference to a secret: it {problem}."


def _make_reference_error(sentence: str) -> InvalidRequest:
    return InvalidRequest(sentence, hint=_HINT, code="bad_secret_reference")
