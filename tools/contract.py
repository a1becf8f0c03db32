"""`python -m tools.contract [--accept [NAME]]`: the messages between the programs of Corral, and what of them is new.

The contract is `tests/versions/contract.json`: every call of a worker, every subject of the bus, and the fields of what
they carry, as the version before had them. It is made from the code and changed only by `--accept`, after a release;
`tests/versions` compares the present code with it, in both directions.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import json
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel

from corral import __version__
from corral.api import files, node_self_service
from corral.bus.subjects import SUBJECTS
from corral.domain.backend import Build, SourceKind
from corral.domain.errors import BootSuperseded, NameTaken, NotAllowed, NotAuthenticated, NotFound
from corral.domain.operation import JobPhase, JobState
from corral.ports.credentials import BLOB_READ_SCOPE, FRONTENDS_AUDIENCE
from corral.transfer.inbox import CONTENT_HEADER, SIZE_HEADER, TARGET_HEADER
from corral.transfer.tickets import Ticket, sign_ticket
from corral.wire.base import ErrorOut
from corral.worker.files.content_puller import HAVE_HEADER
from tools.source import ROOT

PATH = ROOT / "tests/versions/contract.json"
RULE = (
    "Every field is always sent. `needed`: a reader refuses the message without it. Later versions add fields that are"
    " not needed; what is here stays for one version."
)
_SIMPLE: Mapping[Any, str] = {str: "text", int: "integer", float: "number", bool: "truth", datetime: "time"}
_ROUTERS = (node_self_service.router, files.router)

Contract = dict[str, Any]


class MessageTransport(StrEnum):
    """How a message of the contract travels."""

    HTTP = "http"
    BUS = "bus"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractMessage:
    """Describes one message of the contract: where it is sent, in which direction, and its type."""

    transport: MessageTransport
    place: str
    part: str
    kind: type[Any]

    @property
    def name(self) -> str:
        return f"{self.place} {self.part}"


def list_messages() -> list[ContractMessage]:
    """Return every message between frontends and workers, as the code has it now."""
    found = [
        ContractMessage(transport=MessageTransport.HTTP, place=place, part=part, kind=kind)
        for place, route in _routes()
        for part, kind in (("sends", _body(route)), ("answers", route.response_model))
        if kind is not None
    ]
    found.append(ContractMessage(transport=MessageTransport.HTTP, place="any call", part="refuses", kind=ErrorOut))
    for spec in SUBJECTS:
        found.append(
            ContractMessage(transport=MessageTransport.BUS, place=spec.template, part="sends", kind=spec.request)
        )
        if spec.reply is not None:
            found.append(
                ContractMessage(transport=MessageTransport.BUS, place=spec.template, part="answers", kind=spec.reply)
            )
    return found


def _routes() -> Iterator[tuple[str, APIRoute]]:
    for router in _ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.path.startswith("/api/node/"):
                for method in sorted(route.methods or ()):
                    yield f"{method} {route.path}", route


def _body(route: APIRoute) -> Any:
    return None if route.body_field is None else strip_none(route.body_field.field_info.annotation)


def list_places() -> dict[str, dict[str, list[str]]]:
    """Return who sends on which subject of the bus, and which calls there are."""
    calls: dict[str, dict[str, list[str]]] = {place: {"from": ["worker"], "to": ["frontend"]} for place, _ in _routes()}
    subjects = {
        spec.template: {"from": sorted(map(str, spec.senders)), "to": sorted(map(str, spec.receivers))}
        for spec in SUBJECTS
    }
    return calls | subjects


def list_words() -> dict[str, list[str]]:
    """Return texts that the other side acts by."""
    return {
        "states of jobs": sorted(JobState),
        "phases of jobs": sorted(JobPhase),
        "sources of backends": sorted(SourceKind),
        "refusals": sorted(kind.code for kind in (BootSuperseded, NameTaken, NotAllowed, NotAuthenticated, NotFound)),
        "headers of files": sorted((CONTENT_HEADER, HAVE_HEADER, SIZE_HEADER, TARGET_HEADER)),
        "rights of tickets": sorted((BLOB_READ_SCOPE, FRONTENDS_AUDIENCE)),
        "claims of tickets": sorted(_claims()),
    }


def _claims() -> dict[str, Any]:
    signed = sign_ticket(Ticket(reader="a", scope="b", expires_at=1), lambda data: data)
    body = signed.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def make_contract(name: str = __version__) -> Contract:
    """Return the contract of the code as it is now."""
    shapes: dict[str, dict[str, str]] = {}
    fields_by_place: dict[str, dict[str, Any]] = {place: dict(ends) for place, ends in list_places().items()}
    for exchange in list_messages():
        fields_by_place.setdefault(exchange.place, {})[exchange.part] = describe_type(exchange.kind, shapes)
    # A build travels inside of commands, as a plain mapping.
    describe_type(Build, shapes)
    return {
        "of": name,
        "rule": RULE,
        "places": fields_by_place,
        "shapes": dict(sorted(shapes.items())),
        "words": list_words(),
    }


def describe_type(kind: Any, shapes: dict[str, dict[str, str]]) -> str:
    """Describe a type in short; the fields of messages go to `shapes`."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _bounded(describe_type(inner[0], shapes), inner[1:])
    if origin in (typing.Union, types.UnionType):
        named = [describe_type(each, shapes) for each in inner if each is not type(None)]
        return " or ".join([*named, *(["null"] if type(None) in inner else [])])
    if origin in (list, tuple, Sequence):
        return f"list of {describe_type(inner[0], shapes)}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "object" if inner[1] in (object, Any) else f"map of {describe_type(inner[1], shapes)}"
    if kind in _SIMPLE or issubclass(kind, StrEnum):
        return _SIMPLE.get(kind, "text")
    if kind.__name__ not in shapes:
        shapes[kind.__name__] = {}
        shapes[kind.__name__].update(dict(_fields(kind, shapes)))
    return str(kind.__name__)


def _fields(kind: Any, shapes: dict[str, dict[str, str]]) -> Iterator[tuple[str, str]]:
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            text = _bounded(describe_type(field.annotation, shapes), field.metadata)
            yield name, f"{text}, needed" if field.is_required() else text
        return
    hints = typing.get_type_hints(kind, include_extras=True)
    for part in dataclasses.fields(kind):
        is_needed = part.default is dataclasses.MISSING and part.default_factory is dataclasses.MISSING
        yield part.name, describe_type(hints[part.name], shapes) + (", needed" if is_needed else "")


def _bounded(text: str, metadata: Sequence[Any]) -> str:
    """Return `text(1..255)` for lengths and numbers, `list(..9) of …`, `text(sha256)`. Other patterns only keep control
    characters out, and are not shown."""
    flat = [part for each in metadata for part in getattr(each, "metadata", None) or [each]]
    if any("{64}" in str(getattr(part, "pattern", "")) for part in flat):
        return f"{text}(sha256)"
    low, high = _first(flat, "min_length", "ge"), _first(flat, "max_length", "le")
    if low == high == "":
        return text
    word, space, rest = text.partition(" ")
    return f"{word}({low}..{high}){space}{rest}"


def _first(metadata: Sequence[Any], *names: str) -> str:
    found = (getattr(part, name, None) for part in metadata for name in names)
    return next((str(value) for value in found if value is not None), "")


def strip_none(kind: Any) -> Any:
    left = [each for each in typing.get_args(kind) if each is not type(None)]
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return left[0] if is_union and len(left) == 1 else kind


def read_contract(path: Path = PATH) -> Contract:
    return typing.cast("Contract", json.loads(path.read_text(encoding="utf-8")))


def write_contract(name: str, path: Path = PATH) -> None:
    text = json.dumps(make_contract(name), indent=1, ensure_ascii=False)
    path.write_text(_in_short(text) + "\n", encoding="utf-8")


def list_differences(previous: Mapping[str, Any], current: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Yield one line for each difference."""
    for key in sorted({*previous, *current} - {"of", "rule"}):
        old, new, place = previous.get(key), current.get(key), f"{where} {key}".strip()
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from list_differences(old, new, place)
        elif old != new:
            yield f"new: {place}" if old is None else f"gone: {place}" if new is None else f"{place}: {old} -> {new}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.contract", description="What Corral's programs say.")
    parser.add_argument(
        "--accept",
        nargs="?",
        const=__version__,
        metavar="NAME",
        help="the present code is the version before, from now on",
    )
    options = parser.parse_args(arguments)
    if options.accept is not None:
        write_contract(options.accept)
        print(f"wrote {PATH.relative_to(ROOT)}")
        return 0
    before = read_contract()
    found = list(list_differences(before, make_contract()))
    print("\n".join(found) if found else f"Nothing has changed since {before['of']}.")
    return 0


def _in_short(text: str) -> str:
    """Put lists of a few words on one line."""
    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: "[" + " ".join(found[1].split()) + "]", text)


if __name__ == "__main__":
    sys.exit(main())
