"""What a caller may do, and which models it may ask for. Pure: the second is looked at on every request."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from corral.domain.access import Principal, Scope
from corral.domain.errors import NotAllowed

_MAY_ONLY = {Scope.OPERATE: "operate the cluster", Scope.INFER: "ask models"}


def allowed(principal: Principal, scope: Scope) -> Principal:
    """The caller, if it may do what the scope is about."""
    if principal.may(scope):
        return principal
    whose = "belongs to an agent node and may only" if principal.node_id else "may only"
    raise NotAllowed(
        f"{principal.name} {whose} {_MAY_ONLY[principal.scope]}.",
        hint=f"This takes the scope {scope}. An admin makes a key with `corral keys create --scope {scope}`.",
    )


def may_ask(principal: Principal, model_name: str, names: Iterable[str] = ()) -> bool:
    """Whether the allow-list has the model, by its own name or by one of the `names` that it also goes by.

    Capitals count. A model that is allowed by one name is allowed by all: the list is about models, not about words.
    """
    patterns = principal.models
    if patterns is None:
        return True
    return any(fnmatchcase(name, pattern) for name in (model_name, *names) for pattern in patterns)
