"""The present code beside the version before: each understands the messages of the other.

Rolling updates go frontends first, and a frontend may go back: so every message is held against the contract in both
directions, whoever sends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from corral.bus.codec import BadMessage
from corral.policy.gallery import build_from_json, build_to_json
from tests.versions.messages import NEEDED, STRANGE, Form, echoed, lost, made, problems
from tools import contract
from tools.contract import Contract, ContractMessage, MessageTransport

BEFORE = contract.read_contract()
NOW = contract.make_contract()
PRESENT = {exchange.name: exchange for exchange in contract.list_messages()}
ADVICE = (
    "A worker or frontend of the version before still speaks so. Keep reading and sending the old field for one version"
    " and give a new one a default; only after a release: python -m tools.contract --accept"
)
# Calls of workers and subjects that they send on which the version before does not have: each with what a worker does
# when an older frontend refuses it.
NEW_FROM_WORKERS: Mapping[str, str] = {
    "POST /api/node/{node_id}/prefetch": "nothing is fetched ahead of time; the worker asks again every minute",
    "POST /api/node/{node_id}/blobs/{sha256}/damage": "the worker takes its bytes from another place, as it did before",
}
# Words that a reader drops the whole message for if it does not know them.
CLOSED = frozenset({"states of jobs", "sources of backends"})


@dataclass(frozen=True)
class PreviousMessage:
    """One message as the version before has it."""

    name: str
    kind: str
    part: str


def list_previous_messages() -> list[PreviousMessage]:
    return [
        PreviousMessage(name=f"{place} {part}", kind=ends[part], part=part)
        for place, ends in BEFORE["places"].items()
        for part in ("sends", "answers", "refuses")
        if part in ends
    ]


every_message = pytest.mark.parametrize("previous", list_previous_messages(), ids=lambda previous: previous.name)


def unread(
    previous: PreviousMessage, exchange: ContractMessage, before: Contract, *, strange: bool = False
) -> Iterator[str]:
    """What the present code does not understand of the version before."""
    for form in Form:
        message = made(previous.kind, before["shapes"], form)
        sent = made(previous.kind, before["shapes"], form, strange=strange)
        try:
            yield from (f"{form}: {problem}" for problem in lost(message, echoed(exchange, sent)))
        except (BadMessage, ValidationError) as error:
            yield f"{form}: {error}"


def unfit(previous: PreviousMessage, exchange: ContractMessage, before: Contract) -> Iterator[str]:
    """What the version before does not understand of the present code."""
    shapes: dict[str, dict[str, str]] = {}
    kind = contract.describe_type(exchange.kind, shapes)
    for form in Form:
        message = echoed(exchange, made(kind, shapes, form))
        yield from (f"{form}: {problem}" for problem in problems(message, previous.kind, before["shapes"]))


def format_problems(what: str, found: list[str]) -> str:
    return "\n  ".join([what, *dict.fromkeys(found), ADVICE])


def present(previous: PreviousMessage) -> ContractMessage:
    assert previous.name in PRESENT, format_problems(f"{previous.name} is gone.", [])
    return PRESENT[previous.name]


@pytest.mark.behaviour("VER-1")
@every_message
def test_messages_of_the_previous_version_are_parsed(previous: PreviousMessage) -> None:
    found = list(unread(previous, present(previous), BEFORE))
    assert not found, format_problems(f"{previous.name}, as the version before says it:", found)


@pytest.mark.behaviour("VER-2")
@every_message
def test_messages_sent_to_the_previous_version_are_complete(previous: PreviousMessage) -> None:
    found = list(unfit(previous, present(previous), BEFORE))
    assert not found, format_problems(f"{previous.name}, as the version before hears it:", found)


@every_message
def test_unknown_fields_are_accepted(previous: PreviousMessage) -> None:
    found = list(unread(previous, present(previous), BEFORE, strange=True))
    assert not found, format_problems(f"{previous.name}, with a field of a later version:", found)


@pytest.mark.behaviour("VER-1")
@pytest.mark.parametrize("place", BEFORE["places"])
def test_senders_of_the_previous_version_are_still_allowed(place: str) -> None:
    now = NOW["places"].get(place)
    assert now is not None, format_problems(f"{place} is gone.", [])
    for end in ("from", "to"):
        missing = sorted(set(BEFORE["places"][place].get(end, ())) - set(now.get(end, ())))
        assert not missing, format_problems(f"{place} is not {end} {', '.join(missing)} any more.", [])


@pytest.mark.behaviour("VER-2")
def test_new_worker_requests_are_listed_as_refused_by_older_frontends() -> None:
    added = {
        place
        for place, ends in NOW["places"].items()
        if place not in BEFORE["places"] and "worker" in ends.get("from", ())
    }
    assert added == set(NEW_FROM_WORKERS), (
        f"{sorted(added ^ set(NEW_FROM_WORKERS))}: a new worker may meet an older frontend, which does not know it. See"
        " what the worker does then, and write that down in NEW_FROM_WORKERS; after --accept it goes from there."
    )


@pytest.mark.behaviour("VER-1")
@pytest.mark.parametrize("name", BEFORE["words"])
def test_words_that_are_acted_by_are_still_known(name: str) -> None:
    before, now = set(BEFORE["words"][name]), set(NOW["words"].get(name, ()))
    assert before <= now, format_problems(f"{name}: {', '.join(sorted(before - now))} is gone.", [])
    if name in CLOSED:
        assert now <= before, format_problems(
            f"{name}: the version before drops a message with {', '.join(sorted(now - before))}.", []
        )


@pytest.mark.behaviour("VER-1")
@pytest.mark.parametrize("source", BEFORE["words"]["sources of backends"])
@pytest.mark.parametrize("form", Form)
def test_builds_inside_of_commands_keep_their_form(form: Form, source: str) -> None:
    build = made("Build", BEFORE["shapes"], form, strange=True)
    build |= {"name": "engine"}
    build["source"] |= {"kind": source, "uri": "u", "requirements": ["engine==1"], "sha256": "a" * 64}
    build.setdefault("manifest", {})
    if "api_key" in build["manifest"]:
        build["manifest"]["api_key"] = "none"
    read = build_to_json(build_from_json(build))
    found = [problem for problem in lost(build, read) if STRANGE not in problem]
    found += problems(read, "Build", BEFORE["shapes"])
    assert not found, format_problems("A build:", found)


# --- that the tests above would notice ---


def exchange_of(kind: type[Any]) -> ContractMessage:
    return ContractMessage(transport=MessageTransport.BUS, place="somewhere", part="sends", kind=kind)


def kind_of(*fields: tuple[Any, ...]) -> type[Any]:
    return make_dataclass("Later", fields, kw_only=True)


OLD_SHAPE: Contract = {"shapes": {"Old": {"name": f"text{NEEDED}", "count": "integer"}}}
OLD = PreviousMessage(name="somewhere sends", kind="Old", part="sends")
NAME, COUNT = ("name", str), ("count", int, 0)


@pytest.mark.parametrize(
    ("fields", "is_read", "is_understood"),
    [
        pytest.param([NAME, COUNT], True, True, id="as it was"),
        pytest.param([NAME, COUNT, ("more", str, "")], True, True, id="a field more"),
        pytest.param([NAME, COUNT, ("more", str)], False, True, id="a needed field more"),
        pytest.param([NAME], False, False, id="a field less"),
        pytest.param([NAME, ("number", int, 0)], False, False, id="another name"),
        pytest.param([NAME, ("count", str, "")], False, False, id="another type"),
        pytest.param([NAME, ("count", int | None, None)], True, False, id="null where there was none"),
        pytest.param([NAME, ("count", int)], False, True, id="needed from now on"),
    ],
)
@pytest.mark.behaviour("VER-1", "VER-2")
def test_change_that_the_version_before_cannot_live_with_is_noticed(
    fields: list[tuple[Any, ...]], is_read: bool, is_understood: bool
) -> None:
    later = exchange_of(kind_of(*fields))
    assert (not list(unread(OLD, later, OLD_SHAPE))) is is_read
    assert (not list(unfit(OLD, later, OLD_SHAPE))) is is_understood


def test_accepted_contract_becomes_the_stored_one(tmp_path: Path) -> None:
    path = tmp_path / "contract.json"
    contract.write_contract("a release", path)
    accepted = contract.read_contract(path)
    assert accepted == contract.make_contract("a release")
    assert accepted["of"] == "a release"
    assert list(contract.list_differences(accepted, NOW)) == []


def test_contract_tool_lists_added_and_removed_items() -> None:
    before = {"of": "1", "shapes": {"A": {"x": "text", "y": "text"}}}
    now = {"of": "2", "shapes": {"A": {"x": "integer", "z": "text"}}}
    assert list(contract.list_differences(before, now)) == [
        "shapes A x: text -> integer",
        "gone: shapes A y",
        "new: shapes A z",
    ]
