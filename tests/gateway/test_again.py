"""A head that a connection has sent before is taken at a glance; nothing else may be taken for one."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tests.api.test_authentication import make_key
from tests.gateway.scene import CHAT, Records, get, request, wire
from tests.support.engines import MisbehavingEngine
from tests.support.frontends import ADMIN_KEY, RunningFrontend


def _saying(word: str) -> dict[str, object]:
    return CHAT | {"messages": [{"role": "user", "content": word}]}


def _words(engine: MisbehavingEngine) -> list[str]:
    return [json.loads(received.body)["messages"][0]["content"] for received in engine.received]


async def test_requests_with_the_same_head_have_bodies_of_their_own(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    words = ["one", "two", "six", "a longer one", "ten"]
    async with wire(frontend) as opened:
        for word in words:
            opened.send(_saying(word))
            assert (await opened.answer()).status == 200
    assert _words(engine) == words
    # Every field is set: a record that lacks one could not be told apart field by field.
    assert [asdict(record)["status"] for record in records.received] == [200] * len(words)
    assert len({record.request_id for record in records.received}) == len(words)


@pytest.mark.parametrize("cut", [1, 40, -1], ids=["after one byte", "in the head", "before the last byte"])
async def test_repeated_head_is_recognised_in_pieces_and_when_pipelined(
    frontend: RunningFrontend, engine: MisbehavingEngine, cut: int
) -> None:
    first, second, third = (request(_saying(word)) for word in ("one", "two", "six"))
    async with wire(frontend) as opened:
        opened.write(first)
        assert (await opened.answer()).status == 200
        opened.write(second[:cut])
        # A second connection is answered in between: what was cut has arrived by then.
        async with wire(frontend) as other:
            other.write(get("/healthz"))
            assert (await other.answer()).status == 200
        opened.write(second[cut:] + third)
        assert [(await opened.answer()).status for _ in range(2)] == [200, 200]
    assert _words(engine) == ["one", "two", "six"]


async def test_bodies_of_every_length_under_a_head_that_differs_in_nothing_else(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    words = ["a" * size for size in (1, 2000, 0, 70_000, 9, 10_000, 1)]
    async with wire(frontend) as opened:
        for word in words:
            opened.send(_saying(word))
            assert (await opened.answer()).status == 200
        # A length that is not that of what follows: the rest is another request, and none of ours.
        opened.write(request(_saying("one")) + get("/healthz"))
        assert [(await opened.answer()).status for _ in range(2)] == [200, 200]
    assert _words(engine) == [*words, "one"]


async def test_head_that_differs_in_one_letter_is_read(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    other_key = ADMIN_KEY[:-1] + ("x" if ADMIN_KEY[-1] != "x" else "y")
    right = request(CHAT)
    wrong = right.replace(ADMIN_KEY.encode(), other_key.encode())
    assert len(right) == len(wrong)
    async with wire(frontend) as opened:
        for raw, status in ((right, 200), (wrong, 401), (right, 200)):
            opened.write(raw)
            assert (await opened.answer()).status == status
    assert len(engine.received) == 2


async def test_repeated_head_is_recognised_among_requests_of_other_kinds(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    async with wire(frontend) as opened:
        for _ in range(2):
            opened.send(_saying("one"))
            assert (await opened.answer()).status == 200
            opened.write(get("/v1/models"))
            assert (await opened.answer()).json()["data"][0]["id"] == "chat"
        opened.write(get("/v1/models") + request(_saying("two")))
        assert [(await opened.answer()).status for _ in range(2)] == [200, 200]
    assert _words(engine) == ["one", "one", "two"]


async def test_key_that_is_revoked_is_refused_under_the_same_head(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    made = await make_key(frontend, scope="infer")
    # In memory, where it is looked for first.
    await frontend.core.api_deps.directory.load_keys()
    raw = request(CHAT).replace(ADMIN_KEY.encode(), made["key"].encode())
    async with wire(frontend) as opened:
        for _ in range(2):
            opened.write(raw)
            assert (await opened.answer()).status == 200
        status, answer = await frontend.call("DELETE", f"/api/keys/{made['id']}")
        assert status < 300, answer
        opened.write(raw)
        assert (await opened.answer()).status == 401
    assert len(engine.received) == 2
