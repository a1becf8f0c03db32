"""Checks the scopes of callers."""

from __future__ import annotations

from corral.domain.access import Principal, Scope
from corral.domain.errors import NotAllowed

_MAY_ONLY = {Scope.OPERATE: "operate the cluster", Scope.INFER: "ask models"}


def require_scope(principal: Principal, scope: Scope) -> Principal:
    """Return the caller if it has the scope; raise `NotAllowed` otherwise."""
    if principal.may(scope):
        return principal
    limitation = "belongs to an agent node and may only" if principal.node_id else "may only"
    raise NotAllowed(
        f"{principal.name} {limitation} {_MAY_ONLY[principal.scope]}.",
        hint=f"This requires the scope {scope}. An admin can make such a key with `corral keys create --scope "
        f"{scope}`.",
    )
