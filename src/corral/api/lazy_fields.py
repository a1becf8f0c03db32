"""Builds the validators of a route's parameters, bodies and responses at their first use instead of at the start.

FastAPI makes a pydantic validator for each of 870 fields while the routes are declared. A frontend uses few of them.
`corral.api` calls `make_fields_lazy` before any route exists; the models of `wire` are built late as well
(`wire/base.py`).

Guarantee: a field validates and describes itself as FastAPI's own. Limit: a type that pydantic knows no validator for
is found when the OpenAPI document is made, which tests do for all routes. It stands on a private class of FastAPI;
`tests/unit/app/test_lazy_fields.py` notices when that changes.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

from fastapi._compat import v2
from pydantic import TypeAdapter
from pydantic.warnings import UnsupportedFieldAttributeWarning


class LazyModelField(v2.ModelField):
    """A field of a route whose validator is built when it is first used."""

    def __post_init__(self) -> None:
        """Leave out what FastAPI does here: building the validator."""

    @cached_property
    def _type_adapter(self) -> TypeAdapter[Any]:  # type: ignore[override]
        # pydantic warns about names that FastAPI gives to its fields, which FastAPI ignores as well.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
            super().__post_init__()
            # FastAPI has stored the validator on this object, in front of this property. That of a model whose
            # build is deferred is only a promise.
            adapter: TypeAdapter[Any] = self.__dict__["_type_adapter"]
            adapter.rebuild()
        return adapter

    __hash__ = v2.ModelField.__hash__


def make_fields_lazy() -> None:
    """Let FastAPI make lazy fields for all routes that are declared from now on."""
    v2.ModelField = LazyModelField  # type: ignore[misc]
