"""Hostile and clumsy input: refused in the envelope, never a crash, and the frontend goes on."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
import yarl

from tests.api.operations import assert_envelope
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import PretendNode, create_join_token, join_node

MIB = 1024 * 1024

WRONG_REGISTRATIONS: dict[str, dict[str, Any]] = {
    "no name": {"name": ""},
    "name of 256 characters": {"name": "n" * 256},
    "control character in the name": {"name": "a\x1bb"},
    "newline in the name": {"name": "a\nb"},
    "NUL in the name": {"name": "a\x00b"},
    "control character of the second set in the name": {"name": "a\x85b"},
    "name that reads backwards": {"name": "a\u202eb"},
    "name with a slash": {"name": "a/b"},
    "name that leads elsewhere": {"name": ".."},
    "name of a route": {"name": "models"},
    "name of another type": {"name": ["n"]},
    "half a character in the name": {"name": "a\ud800b"},
    "short credential": {"credential": "short"},
    "NUL in the boot id": {"boot_id": "12345678\x00"},
    "NUL in the bus key": {"bus_public_key": "U\x00"},
    "bus key that is none": {"bus_public_key": "U" + "1" * 55},
    "control character in a label key": {"labels": {"a\x07": "b"}},
    "control character in a label value": {"labels": {"a": "b\x07"}},
    "NUL in a label value": {"labels": {"a": "\x00"}},
    "empty label key": {"labels": {"": "b"}},
    "long label value": {"labels": {"a": "v" * 256}},
    "label of another type": {"labels": {"a": 1}},
    "too many labels": {"labels": {f"k{n}": "v" for n in range(65)}},
    "very many labels": {"labels": {f"k{n}": "v" for n in range(20_000)}},
    "negative VRAM": {"total_vram": -1},
    "negative free VRAM": {"available_vram": -(2**40)},
    "VRAM of 2**63": {"total_vram": 2**63},
    "RAM of 2**64": {"available_ram": 2**64},
    "disk as text": {"total_disk": "much"},
    "VRAM as a fraction": {"total_vram": 1.5},
    "negative VRAM of a GPU": {"gpus": [{"vendor": "nvidia", "total_vram": -5}]},
    "NUL in the name of a GPU": {"gpus": [{"vendor": "nvidia", "name": "\x00"}]},
    "half a character in the id of a GPU": {"gpus": [{"vendor": "nvidia", "uuid": "\udfff"}]},
    "too many GPUs": {"gpus": [{"vendor": "nvidia"}] * 65},
    "replica slots of 2**31": {"max_replicas_per_model": 2**31},
    "replica slots of 2**63": {"max_replicas_per_model": 2**63},
    "unknown type of node": {"node_type": "toaster\x00"},
    "address with a blank": {"address": "a b:1"},
    "no address": {"address": ""},
    "budget of nonsense": {"vram_budget": "lots"},
    "budget over the card": {"vram_budget": "120%"},
    "NUL in the version": {"version": "\x00"},
    "cores": {"cpu_cores": 10**9},
}


async def test_registration_that_makes_no_sense_is_refused_and_registers_nothing(frontend: RunningFrontend) -> None:
    token = await create_join_token(frontend, max_uses=None)
    for what, wrong in WRONG_REGISTRATIONS.items():
        status, answer = await PretendNode(frontend, "hostile").register(token, **wrong)
        assert status == 400, f"{what}: {status} {answer}"
        assert_envelope(answer, kind="node_error")
    assert (await frontend.call("GET", "/api/nodes"))[1] == []
    assert (await frontend.call("GET", "/api/tokens"))[1][0]["uses"] == 0


async def test_node_name_accepts_any_printable_text_that_fits_into_a_url(frontend: RunningFrontend) -> None:
    names = ["n" * 255, "Größe 7", "機械", "🦙", "%41", "' OR 1=1 --", "a?b#c", "x" * 36]
    for name in names:
        node = await join_node(frontend, name)
        assert (await node.read_as_admin())["name"] == name
        # Encoded already: the client would take some of these apart otherwise.
        by_name = yarl.URL(f"{frontend.url}/api/nodes/{quote(name, safe='')}", encoded=True)
        async with frontend.http.get(by_name, headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as answer:
            assert (await answer.json())["id"] == node.id
    assert {shown["name"] for shown in (await frontend.call("GET", "/api/nodes"))[1]} == set(names)


async def test_heartbeat_that_makes_no_sense_changes_nothing(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    for body in (
        {"available_vram": -1},
        {"available_vram": 2**63},
        {"gpu_vendor": "nv\x00"},
        {"gpu_vendor": "x" * 65},
        {"bus_ok": "perhaps"},
        {"boot_id": "x" * 65},
        {"gpus": {"vendor": "x"}},
    ):
        status, answer = await node.heartbeat(**body)
        assert status == 400, answer
        assert_envelope(answer, code="invalid_request", kind="node_error")
    shown = await node.read_as_admin()
    assert (shown["available_vram"], shown["gpu_vendor"]) == (None, None)


async def test_unknown_fields_of_workers_are_ignored_so_that_versions_can_be_mixed(frontend: RunningFrontend) -> None:
    node = PretendNode(frontend, "newer")
    status, answer = await node.register(
        await create_join_token(frontend), quantum_cores=7, gpus=[{"vendor": "x", "new": 1}]
    )
    assert status == 201, answer
    assert (await node.heartbeat(mood="good", available_ram=5))[0] == 200


async def test_unknown_fields_of_people_are_refused_by_name(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    for path, body in (
        ("/max-replicas-per-model", {"value": 2, "valeu": 3}),
        ("/vram-budget", {"value": "80%", "reserve": 1}),
    ):
        status, answer = await node.call_as_admin("PUT", path, body)
        assert status == 400
        error = assert_envelope(answer, code="invalid_request", kind="node_error")
        assert (set(body) - {"value"}).pop() in error["message"]


WRONG_SETTINGS: dict[tuple[str, str], list[Any]] = {
    ("PUT", "/max-replicas-per-model"): [{"value": v} for v in (0, -1, 1025, 2**31, 2**63, 1.5, "two", None)],
    ("PUT", "/vram-budget"): [{"value": v} for v in ("-1GB", "101%", "1e9", "12 parsecs", "x" * 65, "\x00", 5, None)],
    ("PUT", "/labels"): [{"": "x"}, {"a b": "c"}, {"a": "\x00"}, {"a": "x" * 256}, {"a": 5}, {"a": None}],
    ("PATCH", "/labels"): [{"k" * 129: "x"}, {"-a": "c"}, {"a": "\x7f"}, {"ключ": "v"}, {"a": {}}, {"a": "\ud800"}],
}


async def test_setting_of_a_node_that_makes_no_sense_is_refused_and_changes_nothing(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend)
    before = await node.read_as_admin()
    for (method, path), bodies in WRONG_SETTINGS.items():
        for body in bodies:
            status, answer = await node.call_as_admin(method, path, body)
            assert status == 400, f"{method} {path} {body}: {answer}"
            assert_envelope(answer, kind="node_error")
    after = await node.read_as_admin()
    for field in ("labels", "max_replicas_per_model", "vram_budget", "updated_at"):
        assert after[field] == before[field]


async def test_patching_label_after_label_ends_at_the_limit(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    assert (await node.call_as_admin("PATCH", "/labels", {f"k{n}": "v" for n in range(64)}))[0] == 200
    status, answer = await node.call_as_admin("PATCH", "/labels", {"one-more": "v"})
    assert (status, answer["error"]["code"]) == (400, "bad_label")


async def test_selector_with_a_mistake_is_never_taken_for_none(frontend: RunningFrontend) -> None:
    await join_node(frontend)
    for selector in ("a", "=b", "a=b,c", "a b=c", "a=\x00", "a=" + "v" * 256, "k" * 129 + "=v", "a=\x1b"):
        status, answer = await frontend.call("GET", f"/api/nodes?selector={quote(selector)}")
        assert status == 400, selector
        assert assert_envelope(answer, kind="node_error")["hint"]


async def test_filter_with_a_mistake_is_refused(frontend: RunningFrontend) -> None:
    for query in ("status=happy", "status=%00", "status=" + "x" * 21, "selector=" + "x" * 2001):
        status, answer = await frontend.call("GET", f"/api/nodes?{query}")
        assert status == 400, query
        assert_envelope(answer, kind="node_error")


async def test_strange_name_in_the_address_is_an_unknown_node(frontend: RunningFrontend) -> None:
    for name in ("%00", "%FF%FE", "%ED%A0%80", "x" * 5000, "%F0%9F%A6%99", "..%2F..", "urn:uuid:1"):
        for path in (f"/api/nodes/{name}", f"/api/nodes/{name}/labels", f"/api/node/{name}/models"):
            status, answer = await frontend.call("GET", path)
            assert status == 404, answer
            assert_envelope(answer)


async def _pieces(total: int) -> AsyncIterator[bytes]:
    """A body that does not say how long it is."""
    for _ in range(total // MIB):
        yield b" " * MIB


@pytest.mark.behaviour("API-14")
@pytest.mark.parametrize("is_chunked", [False, True], ids=["declared", "chunked"])
async def test_body_of_50_mb_is_413_and_the_connection_goes_on(frontend: RunningFrontend, is_chunked: bool) -> None:
    for path in ("/api/tokens", "/api/node/register", "/api/keys"):
        body: Any = _pieces(50 * MIB) if is_chunked else io.BytesIO(b" " * (50 * MIB))
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
        async with frontend.http.post(f"{frontend.url}{path}", data=body, headers=headers) as answer:
            assert answer.status == 413
            assert assert_envelope(await answer.json(), code="body_too_large")["hint"]
        assert (await frontend.call("GET", "/api/nodes"))[0] == 200


@pytest.mark.behaviour("API-14")
async def test_body_at_the_limit_is_read_and_one_byte_more_is_not(frontend: RunningFrontend) -> None:
    fitting = json.dumps({"name": "k"}).encode()
    fitting += b" " * (MIB - len(fitting))
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
    for body, status in ((fitting, 201), (fitting + b" ", 413)):
        async with frontend.http.post(f"{frontend.url}/api/keys", data=io.BytesIO(body), headers=headers) as answer:
            assert answer.status == status


@pytest.mark.behaviour("API-14")
async def test_client_that_disconnects_in_its_body_does_not_affect_others(frontend: RunningFrontend) -> None:
    host, port = frontend.url.removeprefix("http://").split(":")
    for head in (
        b"POST /api/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n{",
        b"POST /api/tokens HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"POST /api/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        del reader
    assert (await frontend.call("GET", "/api/nodes"))[0] == 200
