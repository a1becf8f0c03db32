"""One form of error on every route."""

from __future__ import annotations

import pytest

from tests.api.operations import WITHOUT_BODY, YAML, Operation, assert_envelope, operations
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node

ALL = operations()


def _kind(operation: Operation) -> str:
    return (
        "node_error"
        if operation.template.startswith(("/api/node/", "/api/nodes", "/api/files/results/"))
        else "corral_error"
    )


@pytest.mark.behaviour("API-1")
async def test_every_route_that_names_a_node_answers_404_for_an_unknown_one(frontend: RunningFrontend) -> None:
    for operation in (operation for operation in ALL if operation.names_a_node):
        status, answer = await frontend.call(operation.method, operation.path(), operation.body)
        assert status == 404, f"{operation}: {answer}"
        error = assert_envelope(answer, code="node_not_found", kind=_kind(operation))
        assert error["hint"], operation


@pytest.mark.behaviour("API-1")
async def test_mistyped_node_is_answered_with_the_name_that_was_meant(frontend: RunningFrontend) -> None:
    await join_node(frontend, "mini")
    _, answer = await frontend.call("GET", "/api/nodes/mni")
    assert answer["error"]["hint"] == "Did you mean mini?"
    _, answer = await frontend.call("GET", "/api/nodes/somebody-else")
    assert answer["error"]["hint"] == "`corral nodes list` shows the nodes."


@pytest.mark.behaviour("API-1")
@pytest.mark.parametrize("what", ["keys", "tokens"])
async def test_unknown_key_or_token_is_404_with_a_hint(frontend: RunningFrontend, what: str) -> None:
    for reference in ("00000000-0000-4000-8000-000000000000", "no-such-thing", "%00", "%F0%9F%A6%99", "x" * 300):
        status, answer = await frontend.call("DELETE", f"/api/{what}/{reference}")
        assert status == 404, answer
        assert assert_envelope(answer, kind="corral_error")["hint"]


@pytest.mark.behaviour("API-1")
async def test_method_that_a_path_does_not_have_is_405_and_names_those_it_has(frontend: RunningFrontend) -> None:
    for path in {operation.template: operation for operation in ALL}.values():
        address = path.path(node="models") if path.template == "/api/nodes/models" else path.path()
        async with frontend.http.request("OPTIONS", f"{frontend.url}{address}") as answer:
            assert answer.status == 405, path
            assert answer.headers["Allow"], path
            assert_envelope(await answer.json(), code="method_not_allowed", kind=_kind(path))


@pytest.mark.behaviour("API-1")
async def test_path_that_does_not_exist_is_404_in_the_envelope(frontend: RunningFrontend) -> None:
    for path in ("/nothing", "/api", "/api/nothing", "/api/nodes/a/b/c", "/api/node/a/b", "/%00", "//"):
        status, answer = await frontend.call("GET", path)
        assert status == 404, path
        assert assert_envelope(answer, code="not_found")["hint"]


async def test_request_id_of_the_caller_is_returned_in_header_and_body(frontend: RunningFrontend) -> None:
    async with frontend.http.get(f"{frontend.url}/api/nodes/gone", headers={"X-Request-Id": "mine-1"}) as answer:
        assert answer.headers["X-Request-Id"] == "mine-1"
        assert assert_envelope(await answer.json())["request_id"] == "mine-1"


async def test_request_id_that_would_spoil_a_log_is_replaced(frontend: RunningFrontend) -> None:
    for given in ("two words", "x" * 65, "{json}", "ü"):
        async with frontend.http.get(f"{frontend.url}/api/nodes/gone", headers={"X-Request-Id": given}) as answer:
            ours = answer.headers["X-Request-Id"]
            assert ours != given
            assert assert_envelope(await answer.json())["request_id"] == ours


async def test_malformed_json_is_400_on_every_route_that_takes_a_body(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    for operation in (operation for operation in ALL if operation.body is not None):
        path = operation.path(node=node.id, node_id=node.id)
        key = node.credential if operation.is_for_nodes else None
        for body in (b"{", b"", b'{"name": "\xff\xfe"}', b"[" * 100_000, b"nul", b'{"name": 1' + b"0" * 5000 + b"}"):
            if not body and operation.template in WITHOUT_BODY:
                continue
            status, answer = await _send(frontend, operation, path, body, key)
            assert status == 400, f"{operation} {body[:20]!r}: {answer}"
            assert_envelope(answer, kind=_kind(operation))


async def test_body_of_the_wrong_shape_is_400_and_names_the_field(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    for operation in (operation for operation in ALL if operation.body is not None):
        path = operation.path(node=node.id, node_id=node.id)
        key = node.credential if operation.is_for_nodes else None
        # An empty list is how a YAML file with comments only is read: a fleet of nothing.
        for body in (b"7", b'"text"', b"[{}]", *(() if operation.template == "/api/fleet" else (b"[]",))):
            status, answer = await _send(frontend, operation, path, body, key)
            assert status == 400, f"{operation} {body!r}: {answer}"
            error = assert_envelope(answer, code=None if operation.template in YAML else "invalid_request")
            assert error["details"].get("problems") or operation.template in YAML, operation


async def test_invalid_json_is_named_in_the_error(frontend: RunningFrontend) -> None:
    for body in (b"{", b'{"name": "\xff"}', b"[" * 60):
        status, answer = await frontend.call("POST", "/api/tokens", body, Content_Type="application/json")
        assert (status, answer["error"]["code"]) == (400, "malformed_json")
        assert answer["error"]["hint"]


async def _send(
    frontend: RunningFrontend, operation: Operation, path: str, body: bytes, key: str | None
) -> tuple[int, object]:
    more = {} if key is None else {"key": key}
    return await frontend.call(operation.method, path, body, Content_Type="application/json", **more)
