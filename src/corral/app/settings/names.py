"""Names each setting as a flag, as a variable and in the file.

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
from corral.domain.duration import format_duration

PREFIX = "CORRAL_"
# Variables that Corral reads but that are no settings: the settings file, marks of the supervisor, test servers.
OTHER_VARIABLES = frozenset(
    {
        *("CORRAL_CONFIG", "CORRAL_SUPERVISED_HOME", "CORRAL_PARENT_PID", "CORRAL_FAMILY_DIR"),
        *("CORRAL_TEST_PG", "CORRAL_TEST_NATS"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDoc:
    """Describes one setting for the docs and the command line: key, flag, variable, kind, default and sentence."""

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


def to_key(field: str) -> str:
    return field.removesuffix("_s").removesuffix("_bytes")


def to_variable(field: str) -> str:
    return PREFIX + to_key(field).upper()


def to_flag(field: str) -> str:
    return "--" + to_key(field).replace("_", "-")


def describe_settings(model: type[ProcessSettings]) -> list[SettingDoc]:
    """Return the settings of one process, its own before those that several processes share."""
    own = [name for name in model.model_fields if name in model.__annotations__]
    shared = [name for name in model.model_fields if name not in model.__annotations__]
    return [_document_field(model, name, model.model_fields[name]) for name in own + shared]


def describe_all_settings() -> list[SettingDoc]:
    """Return every setting of every process."""
    from corral.app.settings.models import ALL_MODELS

    return [doc for model in ALL_MODELS for doc in describe_settings(model)]


def list_known_variables() -> frozenset[str]:
    """Return all variables that any process knows, because one shell is often used for several processes."""
    return frozenset(list_variables(describe_all_settings()) | OTHER_VARIABLES)


def list_variables(docs: Iterable[SettingDoc]) -> set[str]:
    """Return the names under which these settings, and files with their secrets, are given in the environment."""
    return {name for doc in docs for name in (doc.environment, doc.file_environment) if name is not None}


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to an unknown one; their common prefix does not count."""
    own = {one.removeprefix(PREFIX): one for one in sorted(known)}
    found = get_close_matches(name.removeprefix(PREFIX), own, n=1, cutoff=0.7)
    return own[found[0]] if found else None


def _document_field(model: type[ProcessSettings], name: str, info: FieldInfo) -> SettingDoc:
    inner = _strip_none(info.annotation)
    return SettingDoc(
        process=model.process,
        field=name,
        key=to_key(name),
        environment=to_variable(name),
        flag=to_flag(name),
        kind=_describe_kind(name, inner),
        default=_describe_default(name, info),
        required=info.is_required(),
        secret=inner is SecretStr,
        description=info.description or "",
    )


def _strip_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _describe_kind(name: str, inner: Any) -> str:
    if name.endswith("_s"):
        return "duration"
    if name.endswith("_bytes"):
        return "size"
    if isinstance(inner, type) and issubclass(inner, StrEnum):
        return " or ".join(inner)
    kinds: dict[Any, str] = {SecretStr: "secret", bool: "yes or no", int: "number", Path: "path"}
    return kinds.get(inner, "labels" if get_origin(inner) is dict else "text")


def _describe_default(name: str, info: FieldInfo) -> str | None:
    extra = info.json_schema_extra
    if isinstance(extra, dict) and "shown_default" in extra:
        return str(extra["shown_default"])
    if info.default is None or info.default is PydanticUndefined:
        return None
    if isinstance(info.default, bool):
        return "yes" if info.default else "no"
    return format_duration(info.default) if name.endswith("_s") else str(info.default)
