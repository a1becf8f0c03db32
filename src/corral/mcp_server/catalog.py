"""Makes the tools from the OpenAPI document of a frontend: description, arguments and request of each.

Parameters of the route and the fields of its body become arguments of one flat object; a body without known fields, or
with a field that is also a parameter, is one argument. A route that the document does not have (another version of
Corral) gives no tool. Guarantee: a tool calls its own route and no other, whatever its arguments are. Limit: otherwise
arguments are checked by name only; the frontend checks their values, as for every caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from corral.client.transport import ApiRequest
from corral.domain.access import Scope
from corral.domain.errors import InvalidRequest
from corral.mcp_server.tool_spec import ToolEffect, ToolSpec
from corral.mcp_server.tool_table import TOOLS

_JSON = "application/json"
_REFERENCE = "#/components/schemas/"
# Noise for a model: names that repeat the key, and patterns against control characters.
_DROPPED_KEYWORDS = frozenset({"title", "pattern"})
# Their values are data and not schemas.
_VALUE_KEYWORDS = frozenset({"const", "default", "enum", "examples", "required"})
# A segment of a path that would lead to another route.
_UNSAFE_SEGMENTS = frozenset({"", ".", ".."})
_PATH_PARAMETER = re.compile(r"\{[^{}]+\}")
_FIRST_SENTENCE = re.compile(r".*?\.(?=\s|$)", re.DOTALL)


class ArgumentSource(StrEnum):
    """Names the part of an API request (path, query, body) to which an argument of an MCP tool goes."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    FIELD = "field"  # of the body
    BODY = "body"  # the whole body


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolArgument:
    """Describes one argument of an MCP tool: its schema, and where in the API request its value goes."""

    name: str
    source: ArgumentSource
    # The name of the parameter or field, as the route has it.
    key: str
    schema: Mapping[str, Any]
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiTool:
    """Describes an MCP tool that calls one route of Corral's API."""

    spec: ToolSpec
    description: str
    arguments: tuple[ToolArgument, ...]
    # The route requires a body, even an empty one.
    requires_body: bool
    # The paths of routes with the same method to which arguments could lead, as the document has them.
    other_paths: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_read_only(self) -> bool:
        return self.spec.effect is ToolEffect.READ

    def make_input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, as one object without other properties."""
        return {
            "type": "object",
            "properties": {argument.name: dict(argument.schema) for argument in self.arguments},
            "required": [argument.name for argument in self.arguments if argument.is_required],
            "additionalProperties": False,
        }

    def make_request(self, given: Mapping[str, Any]) -> ApiRequest:
        """Return the request to the API. Raises `InvalidRequest` with the name of an argument that is unknown, missing
        or of no use."""
        self._check_names(given)
        method, _, path = self.spec.route.partition(" ")
        parameters: dict[str, str] = {}
        headers: dict[str, str] = {}
        body: dict[str, Any] = {}
        has_body = self.requires_body
        for argument in self.arguments:
            if argument.name not in given:
                continue
            value = given[argument.name]
            match argument.source:
                case ArgumentSource.FIELD:
                    body[argument.key] = value
                    has_body = True
                case ArgumentSource.BODY:
                    body = _check_mapping(argument.name, value)
                    has_body = True
                case ArgumentSource.PATH:
                    path = path.replace(f"{{{argument.key}}}", _format_segment(argument.name, value))
                case ArgumentSource.QUERY if value is not None:
                    parameters[argument.key] = _format_value(argument.name, value)
                case ArgumentSource.HEADER if value is not None:
                    headers[argument.key] = _format_header(argument.name, value)
        self._check_path(path)
        return ApiRequest(
            method=method, path=path, parameters=parameters, headers=headers, body=body if has_body else None
        )

    def _check_path(self, path: str) -> None:
        """Raise `InvalidRequest` if a path is that of another route, which may be no tool, or that of other callers."""
        sent = unquote(path)
        if any(_compile_path(other).fullmatch(sent) for other in self.other_paths):
            raise InvalidRequest(f"These arguments of {self.name} lead to another route.", code="invalid_argument")

    def _check_names(self, given: Mapping[str, Any]) -> None:
        known = {argument.name for argument in self.arguments}
        names = ", ".join(argument.name for argument in self.arguments)
        hint = f"The tool has the arguments {names}." if known else "The tool has no arguments."
        for name in given:
            if name not in known:
                raise InvalidRequest(f"{self.name} has no argument {name[:100]}.", hint=hint, code="unknown_argument")
        for argument in self.arguments:
            if argument.is_required and given.get(argument.name) is None:
                raise InvalidRequest(
                    f"{self.name} needs the argument {argument.name}.", hint=hint, code="missing_argument"
                )

    def list_filters(self) -> list[str]:
        """Return the arguments that make the result smaller, for the hint after a result that was cut."""
        return [argument.name for argument in self.arguments if argument.source is ArgumentSource.QUERY]


class ToolCatalog:
    """Collects the MCP tools that a frontend offers by name, in the order of the tool table."""

    def __init__(self, tools: Iterable[ApiTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def __iter__(self) -> Iterator[ApiTool]:
        return iter(self._tools.values())

    def find_tool(self, name: str) -> ApiTool | None:
        return self._tools.get(name)

    def list_visible(self, scope: Scope, *, is_read_only: bool) -> list[ApiTool]:
        """Return the tools that a caller with this scope may call; with `is_read_only`, only those that change
        nothing."""
        return [tool for tool in self if scope.covers(tool.spec.scope) and (tool.is_read_only or not is_read_only)]


def build_catalog(document: Mapping[str, Any], specs: Iterable[ToolSpec] = TOOLS) -> ToolCatalog:
    """Return the tools whose routes the OpenAPI document has."""
    resolver = _SchemaResolver(document.get("components", {}).get("schemas", {}))
    paths = document.get("paths", {})
    found = []
    for spec in specs:
        method, _, path = spec.route.partition(" ")
        operation = paths.get(path, {}).get(method.lower())
        if operation is not None:
            others = [other for other, methods in paths.items() if method.lower() in methods]
            found.append(_build_tool(spec, operation, resolver, _list_reachable(path, others)))
    return ToolCatalog(found)


def _build_tool(
    spec: ToolSpec, operation: Mapping[str, Any], resolver: _SchemaResolver, other_paths: tuple[str, ...]
) -> ApiTool:
    arguments = [_build_parameter(spec, parameter, resolver) for parameter in operation.get("parameters", ())]
    body = operation.get("requestBody")
    if body is not None:
        arguments += _build_body(spec, body, resolver, {argument.name for argument in arguments})
    return ApiTool(
        spec=spec,
        description=_describe(spec, operation),
        arguments=tuple(argument for argument in arguments if argument.name not in spec.hidden),
        requires_body=bool(body and body.get("required")),
        other_paths=other_paths,
    )


def _list_reachable(path: str, others: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that this one may become by what stands in it. One that is as general as this one, or more, is
    another only by its place in the table of the frontend, which arguments do not change."""
    plain = _PATH_PARAMETER.sub("-", path)
    return tuple(other for other in others if not _compile_path(other).fullmatch(plain)) if plain != path else ()


def _describe(spec: ToolSpec, operation: Mapping[str, Any]) -> str:
    text = " ".join(str(operation.get("description") or operation.get("summary") or spec.name).split())
    sentence = _FIRST_SENTENCE.match(text)
    return " ".join(part for part in (sentence[0] if sentence else text, spec.then) if part)


def _build_parameter(spec: ToolSpec, parameter: Mapping[str, Any], resolver: _SchemaResolver) -> ToolArgument:
    name = parameter["name"].replace("-", "_")
    schema = resolver.simplify(parameter.get("schema", {}))
    if parameter.get("description"):
        schema["description"] = parameter["description"]
    return ToolArgument(
        name=name,
        source=ArgumentSource(parameter["in"]),
        key=parameter["name"],
        schema=_add_note(spec, name, schema),
        is_required=bool(parameter.get("required")),
    )


def _build_body(
    spec: ToolSpec, body: Mapping[str, Any], resolver: _SchemaResolver, taken: set[str]
) -> list[ToolArgument]:
    schema = _drop_null(resolver.simplify(body.get("content", {}).get(_JSON, {}).get("schema", {})))
    if spec.route.startswith("PATCH "):
        # A field that is left out stays as it is. A default would look like what it becomes.
        schema = _drop_defaults(schema)
    fields = schema.get("properties", {})
    if not fields or taken & set(fields):
        return [
            ToolArgument(
                name=spec.body,
                source=ArgumentSource.BODY,
                key=spec.body,
                schema=_add_note(spec, spec.body, {"type": "object", **schema}),
                is_required=bool(body.get("required")),
            )
        ]
    required = set(schema.get("required", ()))
    return [
        ToolArgument(
            name=key,
            source=ArgumentSource.FIELD,
            key=key,
            schema=_add_note(spec, key, field),
            is_required=key in required,
        )
        for key, field in fields.items()
    ]


def _add_note(spec: ToolSpec, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return schema | {"description": spec.notes[name]} if name in spec.notes else schema


class _SchemaResolver:
    """Writes schemas without references, which many MCP clients do not follow."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def simplify(self, schema: Any, parents: tuple[str, ...] = ()) -> Any:
        """Return a copy with every reference replaced by its schema, and without keywords that say nothing to a model.
        A schema inside itself becomes any value."""
        if isinstance(schema, list):
            return [self.simplify(part, parents) for part in schema]
        if not isinstance(schema, Mapping):
            return schema
        reference = str(schema.get("$ref", ""))
        found: dict[str, Any] = {}
        if reference:
            name = reference.removeprefix(_REFERENCE)
            if name not in parents:
                found = self.simplify(self._schemas.get(name, {}), (*parents, name))
        own = {
            key: self._simplify_keyword(key, value, parents)
            for key, value in schema.items()
            if key != "$ref" and key not in _DROPPED_KEYWORDS
        }
        return found | own

    def _simplify_keyword(self, key: str, value: Any, parents: tuple[str, ...]) -> Any:
        if key in _VALUE_KEYWORDS:
            return value
        if key == "properties":
            return {name: self.simplify(part, parents) for name, part in value.items()}
        return self.simplify(value, parents)


def _drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body that may be left out, without the null that says so."""
    choices = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
    return choices[0] if len(choices) == 1 else schema


def _drop_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    fields = schema.get("properties", {})
    return schema | {
        "properties": {
            name: {key: value for key, value in field.items() if key != "default"} for name, field in fields.items()
        }
    }


@lru_cache(maxsize=1024)
def _compile_path(path: str) -> re.Pattern[str]:
    """Return the pattern of the paths of a route. The document does not say whose parameters may have slashes."""
    return re.compile(".+".join(map(re.escape, _PATH_PARAMETER.split(path))), re.DOTALL)


def _check_mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"The argument {name} has to be an object.", code="invalid_argument")
    return value


def _format_segment(name: str, value: Any) -> str:
    text = _format_value(name, value)
    if _UNSAFE_SEGMENTS & set(text.split("/")):
        raise InvalidRequest(f"The argument {name} cannot be {text[:100]!r}.", code="invalid_argument")
    return quote(text, safe="")


def _format_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidRequest(f"The argument {name} has to be a text or a number.", code="invalid_argument")


def _format_header(name: str, value: Any) -> str:
    text = _format_value(name, value)
    if not text.isascii() or not text.isprintable():
        raise InvalidRequest(f"The argument {name} has characters that it cannot have.", code="invalid_argument")
    return text
