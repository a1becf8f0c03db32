"""What each setting is called: as a flag, as a variable, in the file.

One rule: the field's name without its unit (the value carries one: `CORRAL_NODE_LEASE=45s`). A secret has a second
name that ends in `_FILE` and gives the file which holds it.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from corral.app.settings.base import ProcessSettings
from corral.app.settings.values import duration_text

PREFIX = "CORRAL_"
# Read by programs of ours, but settings of no process: the file's own name, the supervisor's mark, the tests' servers.
OTHER_VARIABLES = frozenset(
    {
        *("CORRAL_CONFIG", "CORRAL_SUPERVISED_HOME", "CORRAL_PARENT_PID", "CORRAL_FAMILY_DIR"),
        *("CORRAL_TEST_PG", "CORRAL_TEST_NATS"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDoc:
    """One line of the reference page, and one flag."""

    process: str
    field: str
    key: str
    environment: str
    flag: str
    kind: str
    default: str | None
    required: bool
    secret: bool
    description: str

    @property
    def file_environment(self) -> str | None:
        return f"{self.environment}_FILE" if self.secret else None

    @property
    def is_switch(self) -> bool:
        return self.kind == "yes or no"


def key_of(field: str) -> str:
    return field.removesuffix("_s").removesuffix("_bytes")


def environment_of(field: str) -> str:
    return PREFIX + key_of(field).upper()


def flag_of(field: str) -> str:
    return "--" + key_of(field).replace("_", "-")


def document(model: type[ProcessSettings]) -> list[SettingDoc]:
    """The settings of one process, its own ones before those that several share."""
    own = [name for name in model.model_fields if name in model.__annotations__]
    shared = [name for name in model.model_fields if name not in model.__annotations__]
    return [_document_field(model, name, model.model_fields[name]) for name in own + shared]


def describe() -> list[SettingDoc]:
    """Every setting of every process."""
    from corral.app.settings.models import ALL_MODELS

    return [doc for model in ALL_MODELS for doc in document(model)]


def known_variables() -> frozenset[str]:
    """All variables that any process knows: one shell is often used for several of them."""
    return frozenset(variables_of(describe()) | OTHER_VARIABLES)


def variables_of(docs: Iterable[SettingDoc]) -> set[str]:
    """Return the names under which these settings, and files with their secrets, are given in the environment."""
    return {name for doc in docs for name in (doc.environment, doc.file_environment) if name is not None}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was most likely meant. What all names begin with says nothing about that."""
    own = {one.removeprefix(PREFIX): one for one in sorted(known)}
    found = get_close_matches(name.removeprefix(PREFIX), own, n=1, cutoff=0.7)
    return own[found[0]] if found else None


def _document_field(model: type[ProcessSettings], name: str, info: FieldInfo) -> SettingDoc:
    inner = _without_none(info.annotation)
    return SettingDoc(
        process=model.process,
        field=name,
        key=key_of(name),
        environment=environment_of(name),
        flag=flag_of(name),
        kind=_kind(name, inner),
        default=_default_text(name, info),
        required=info.is_required(),
        secret=inner is SecretStr,
        description=info.description or "",
    )


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _kind(name: str, inner: Any) -> str:
    if name.endswith("_s"):
        return "duration"
    if name.endswith("_bytes"):
        return "size"
    if isinstance(inner, type) and issubclass(inner, StrEnum):
        return " or ".join(inner)
    kinds: dict[Any, str] = {SecretStr: "secret", bool: "yes or no", int: "number", Path: "path"}
    return kinds.get(inner, "labels" if get_origin(inner) is dict else "text")


def _default_text(name: str, info: FieldInfo) -> str | None:
    extra = info.json_schema_extra
    if isinstance(extra, dict) and "shown_default" in extra:
        return str(extra["shown_default"])
    if info.default is None or info.default is PydanticUndefined:
        return None
    if isinstance(info.default, bool):
        return "yes" if info.default else "no"
    return duration_text(info.default) if name.endswith("_s") else str(info.default)
