"""Which models a key may ask for. Pure, and asked on every request."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from corral.domain.access import Principal


def may_ask(principal: Principal, model_name: str, names: Iterable[str] = ()) -> bool:
    """Whether the allow-list has the model, by its own name or by one of the `names` that it also goes by.

    Capitals count. A model that is allowed by one name is allowed by all: the list is about models, not about words.
    """
    patterns = principal.models
    if patterns is None:
        return True
    return any(fnmatchcase(name, pattern) for name in (model_name, *names) for pattern in patterns)
