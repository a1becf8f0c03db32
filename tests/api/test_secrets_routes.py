"""`/api/secrets`: who may do what, what is refused, and that a value comes back nowhere."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text

from corral.app.logs import configure_logging
from corral.app.settings.models import LogFormat, LogLevel
from corral.domain.access import CLUSTER, Owner
from corral.domain.secret import VALUE_BYTES_MAX
from corral.store.schema import metadata
from tests.access.test_secret_sealer import FIRST, SECOND
from tests.api.operations import assert_envelope
from tests.api.streams import open_stream
from tests.api.test_authentication import make_key
from tests.api.test_key_sessions import show
from tests.api.test_secrets import remember_logging
from tests.api.test_sessions import OWN, as_browser, log_in, secret_of
from tests.api.test_users import make_user
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token

CANARY = "hf_canary-0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend with a key file."""
    async with running_frontend(database_url, sealing_keys=(FIRST,)) as running:
        yield running


async def put(frontend: RunningFrontend, name: str, value: Any = "a value", **more: Any) -> tuple[int, Any]:
    return await frontend.call("PUT", f"/api/secrets/{name}", {"value": value}, **more)


async def list_names(frontend: RunningFrontend, query: str = "", **more: Any) -> list[str]:
    status, found = await frontend.call("GET", f"/api/secrets{query}", **more)
    assert status == 200, found
    return [secret["name"] for secret in found]


async def test_secret_is_put_listed_replaced_and_deleted(frontend: RunningFrontend) -> None:
    status, made = await put(frontend, "hub-token", CANARY)
    assert status == 200, made
    assert set(made) == {"id", "name", "reference", "created_at", "updated_at", "changed_by", "last_used_at"}
    assert (made["name"], made["reference"], made["changed_by"]) == ("hub-token", "secret:hub-token", "admin")
    assert await frontend.call("GET", "/api/secrets") == (200, [made])
    assert (await put(frontend, "hub-token", "another"))[1]["id"] == made["id"]
    assert (await frontend.call("DELETE", "/api/secrets/hub-token")) == (204, "")
    assert await list_names(frontend) == []
    status, answer = await frontend.call("DELETE", "/api/secrets/hub-token")
    assert (status, assert_envelope(answer)["code"]) == (404, "secret_not_found")
    assert "corral secrets list" in answer["error"]["hint"]


@pytest.mark.behaviour("SEC-2")
async def test_every_scope_keeps_secrets_that_no_other_key_sees(frontend: RunningFrontend) -> None:
    made = [(await make_key(frontend, scope=scope))["key"] for scope in ("infer", "operate", "admin")]
    for number, key in enumerate(made):
        assert (await put(frontend, f"of-{number}", key=key))[0] == 200
    for number, key in enumerate(made):
        assert await list_names(frontend, key=key) == [f"of-{number}"]
        status, _ = await frontend.call("DELETE", f"/api/secrets/of-{(number + 1) % 3}", key=key)
        assert status == 404


@pytest.mark.behaviour("SEC-2")
async def test_keys_and_sessions_of_a_user_keep_the_secrets_of_the_user(frontend: RunningFrontend) -> None:
    ada = await make_user(frontend)
    first, second = [(await make_key(frontend, scope="infer", user="ada"))["key"] for _ in range(2)]
    cookie = secret_of((await log_in(frontend))[2])
    assert (await put(frontend, "by-key", key=first))[0] == 200
    status, made = await as_browser(
        frontend, cookie, "/api/secrets/by-session", "PUT", json={"value": "v"}, headers=OWN
    )
    assert (status, made["changed_by"]) == (200, "ada")
    assert await list_names(frontend, key=second) == ["by-key", "by-session"]
    assert len((await as_browser(frontend, cookie, "/api/secrets"))[1]) == 2
    assert (await as_browser(frontend, cookie, "/api/secrets/by-key", "DELETE"))[0] == 403
    assert len(await frontend.core.secret_store.list(Owner(user_id=ada["id"]))) == 2
    assert await list_names(frontend) == []


@pytest.mark.behaviour("SEC-2")
async def test_session_of_a_key_keeps_the_secrets_of_the_key(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer"))["key"]
    assert (await put(frontend, "hub", key=key))[0] == 200
    cookie = secret_of((await show(frontend, {"key": key}))[2])
    assert [secret["name"] for secret in (await as_browser(frontend, cookie, "/api/secrets"))[1]] == ["hub"]


@pytest.mark.behaviour("SEC-3")
async def test_cluster_secrets_are_set_by_admins_listed_by_operators_and_hidden_from_others(
    frontend: RunningFrontend,
) -> None:
    keys = {scope: (await make_key(frontend, scope=scope))["key"] for scope in ("infer", "operate", "admin")}
    path = "/api/secrets/hub?scope=cluster"
    for scope, status in (("infer", 403), ("operate", 403), ("admin", 200)):
        assert (await frontend.call("PUT", path, {"value": "v"}, key=keys[scope]))[0] == status, scope
    for scope, status in (("infer", 403), ("operate", 200), ("admin", 200)):
        assert (await frontend.call("GET", "/api/secrets?scope=cluster", key=keys[scope]))[0] == status, scope
    (entry,) = (await frontend.call("GET", "/api/secrets?scope=cluster"))[1]
    assert (entry["name"], entry["reference"]) == ("hub", "cluster-secret:hub")
    assert await list_names(frontend, key=keys["admin"]) == []
    for scope, status in (("infer", 403), ("operate", 403), ("admin", 204)):
        assert (await frontend.call("DELETE", path, key=keys[scope]))[0] == status, scope
    assert await frontend.core.secret_store.list(CLUSTER) == []
    status, answer = await frontend.call("GET", "/api/secrets?scope=everybody")
    assert (status, assert_envelope(answer)["code"]) == (400, "invalid_request")


@pytest.mark.behaviour("SEC-3")
async def test_key_of_an_agent_node_keeps_no_secrets(frontend: RunningFrontend) -> None:
    agent = PretendNode(frontend, "agent-1")
    _, answer = await agent.register(await create_join_token(frontend, approves=True), node_type="agent", address="")
    key = answer["api_token"]
    for query in ("", "?scope=cluster"):
        for method, path in (("GET", ""), ("PUT", "/hub"), ("DELETE", "/hub")):
            body = {"value": "v"} if method == "PUT" else None
            status, refused = await frontend.call(method, f"/api/secrets{path}{query}", body, key=key)
            assert (status, assert_envelope(refused)["code"]) == (403, "not_allowed"), method
            assert refused["error"]["hint"]


@pytest.mark.behaviour("SEC-5")
async def test_frontend_without_a_key_file_is_ready_and_refuses_to_store_a_secret(database_url: str) -> None:
    async with running_frontend(database_url) as keyless:
        assert (await keyless.call("GET", "/readyz", key=None))[0] == 200
        status, answer = await put(keyless, "hub", CANARY)
        error = assert_envelope(answer, code="no_secrets_key")
        assert status == 503
        assert "secrets_key_file" in error["hint"]
        assert CANARY not in str(answer)
        assert await list_names(keyless) == []
        # A fault of the call itself is reported first.
        assert (await put(keyless, "two words", CANARY))[0] == 400


@pytest.mark.behaviour("SEC-6")
async def test_frontend_seals_all_secrets_with_the_first_key_at_its_start(database_url: str) -> None:
    async with running_frontend(database_url, sealing_keys=(FIRST,)) as before:
        assert (await put(before, "hub", CANARY))[0] == 200
    async with running_frontend(database_url, sealing_keys=(SECOND, FIRST)):
        pass
    async with running_frontend(database_url, sealing_keys=(SECOND,)) as after:
        me = (await after.call("GET", "/api/me"))[1]
        values = await after.core.secret_store.resolve(Owner(key_id=me["key_id"]), ["hub"])
        assert values["hub"].text == CANARY
        assert (await after.call("GET", "/api/secrets"))[1][0]["last_used_at"] is not None


@pytest.mark.behaviour("SEC-7")
async def test_secrets_go_when_their_key_is_revoked_or_their_user_deleted(frontend: RunningFrontend) -> None:
    shop, ada = await make_key(frontend, scope="infer"), await make_user(frontend)
    of_ada = await make_key(frontend, scope="infer", user="ada")
    for key in (shop["key"], of_ada["key"]):
        assert (await put(frontend, "hub", key=key))[0] == 200
    assert (await frontend.call("DELETE", f"/api/keys/{shop['id']}"))[0] == 200
    assert (await frontend.call("DELETE", f"/api/users/{ada['id']}"))[0] == 200
    async with frontend.database.transaction() as tx:
        assert (await tx.execute(text("SELECT count(*) FROM secrets"))).scalar_one() == 0


@pytest.mark.behaviour("SEC-10")
async def test_invalid_names_and_values_are_refused_with_a_hint(frontend: RunningFrontend) -> None:
    for name in ("two%20words", "x" * 101, "%C3%A4", "a%00b", "a:b", "a%0A"):
        status, answer = await put(frontend, name)
        assert (status, assert_envelope(answer)["code"]) == (400, "bad_secret_name"), name
        assert answer["error"]["hint"]
        status, answer = await frontend.call("DELETE", f"/api/secrets/{name}")
        assert (status, assert_envelope(answer)["code"]) == (404, "secret_not_found"), name
    for value in ("", "a\x00b", "x" * (VALUE_BYTES_MAX + 1), "ä" * VALUE_BYTES_MAX):
        status, answer = await put(frontend, "hub", value)
        assert (status, assert_envelope(answer)["code"]) == (400, "bad_secret_value")
        assert answer["error"]["hint"]
    assert await list_names(frontend) == []
    assert (await put(frontend, "x" * 100, "ä" * (VALUE_BYTES_MAX // 2)))[0] == 200


# Bodies that hold the value where it does not belong.
WRONG_BODIES = (
    json.dumps(CANARY),
    json.dumps([CANARY]),
    json.dumps({"value": [CANARY]}),
    json.dumps({"value": {"text": CANARY}}),
    json.dumps({"valeu": CANARY}),
    json.dumps({"value": CANARY, "more": CANARY}),
    json.dumps({"value": CANARY + "\x00"}),
    json.dumps({"value": CANARY + "\ud800"}),
    json.dumps({"value": CANARY + "x" * VALUE_BYTES_MAX}),
    json.dumps({"value": CANARY + "x" * 8 * VALUE_BYTES_MAX}),
    f'{{"value": "{CANARY}',
    CANARY,
)


@pytest.mark.behaviour("SEC-1")
async def test_value_comes_back_nowhere(
    database_url: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value is put through the API, used and refused in every way, and then looked for everywhere."""
    written = io.StringIO()
    request.addfinalizer(remember_logging())
    configure_logging(LogFormat.TEXT, LogLevel.DEBUG, stream=written)
    answers: list[Any] = []
    async with running_frontend(database_url, sealing_keys=(FIRST,)) as frontend:
        async with open_stream(frontend.url) as stream:
            await stream.next()
            for query in ("", "?scope=cluster"):
                answers.append(await put(frontend, f"hub{query}", CANARY))
                answers.append(await frontend.call("GET", f"/api/secrets{query}"))
            me = (await frontend.call("GET", "/api/me"))[1]
            assert (await frontend.core.secret_store.resolve(CLUSTER, ["hub"]))["hub"].text == CANARY
            for body in WRONG_BODIES:
                answer = await frontend.call("PUT", "/api/secrets/hub", body, Content_Type="application/json")
                assert answer[0] == 400, answer
                answers.append(answer)
            monkeypatch.setattr(frontend.core.secret_store, "_database", None)
            # A bug while the value is stored: the traceback goes to the log.
            answers.append(await put(frontend, "hub", CANARY))
            assert answers[-1][0] == 500
            monkeypatch.undo()
            answers.append(await frontend.call("GET", "/api/audit"))
            assert (await frontend.call("DELETE", "/api/secrets/hub"))[0] == 204
            answers.append([str(frame) for frame in await stream.until("secret.deleted")])
        haystacks = {"the answers": json.dumps(answers), **await _dump_tables(frontend)}
        assert await frontend.core.secret_store.list(Owner(key_id=me["key_id"])) == []
    haystacks["the log"] = written.getvalue()
    assert "Traceback" in haystacks["the log"]
    assert "\\x01" in haystacks["secrets"]
    assert "secret.changed" in haystacks["outbox"]
    for where, haystack in haystacks.items():
        for form in _list_forms(CANARY):
            assert form not in haystack, where


async def _dump_tables(frontend: RunningFrontend) -> dict[str, str]:
    """Return every row of every table as text, by the name of the table; bytes as hexadecimal digits."""
    found: dict[str, str] = {}
    async with frontend.database.transaction() as tx:
        for table in metadata.sorted_tables:
            rows = await tx.execute(text(f'SELECT t::text FROM "{table.name}" t'))
            found[table.name] = "\n".join(str(row[0]) for row in rows)
    return found


def _list_forms(value: str) -> list[str]:
    """Return forms in which a text could be found: itself, a part of it, hexadecimal digits, Base64 at any offset."""
    raw = value.encode()
    encoded = [b64encode(raw[skipped:]).decode().rstrip("=")[:40] for skipped in range(3)]
    return [value, value[6:22], raw.hex(), raw.hex().upper(), *encoded]


@pytest.mark.behaviour("SEC-1")
async def test_events_tell_operators_neither_name_nor_owner_of_a_secret(frontend: RunningFrontend) -> None:
    operator = (await make_key(frontend, scope="operate"))["key"]
    shop = await make_key(frontend, scope="infer")
    async with open_stream(frontend.url, key=operator, topics="secret") as stream:
        await stream.next()
        made = (await put(frontend, "name-that-tells", key=shop["key"]))[1]
        (frame,) = [one for one in await stream.until("secret.changed") if one.event == "secret.changed"]
        content = json.loads(frame.data)
        assert (content["key"], content["data"]) == (made["id"], {})
        assert "name-that-tells" not in frame.data
        assert shop["id"] not in frame.data
