"""Puts the values of secrets in the place of their references, right before they are sent somewhere.

A reference is `secret:NAME` and always means a secret of the task's owner. The values go nowhere else: neither into
rows, logs nor errors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from corral.domain.access import Owner
from corral.policy.tasks import find_secret


class SecretText(Protocol):
    """Interface that holds the value of a stored secret for a task's webhook or attachment."""

    @property
    def text(self) -> str: ...


class SecretResolver(Protocol):
    """Interface that returns the values of stored secrets for a task's webhooks and attachments."""

    async def resolve(self, owner: Owner, names: Collection[str]) -> Mapping[str, SecretText]:
        """Return the values of an owner's secrets by name. Raises if one of them does not exist or cannot be read."""
        ...


async def resolve_values(secrets: SecretResolver, owner: Owner, values: Mapping[str, str]) -> dict[str, str]:
    """Return the same mapping with values in place of references; nothing is looked up if there are none."""
    found = {key: find_secret(value) for key, value in values.items()}
    names = {reference[1] for reference in found.values() if reference is not None}
    known = await secrets.resolve(owner, names) if names else {}
    resolved = dict(values)
    for key, reference in found.items():
        if reference is not None:
            before, name = reference
            resolved[key] = f"{before}{known[name].text}"
    return resolved
