"""What a frontend knows of who may ask: from memory, without PostgreSQL, and after a start from what was kept."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from corral.access.directory import CredentialDirectory, require_scope
from corral.adapters.system import SystemClock
from corral.domain.access import KeyLimit, Principal, Scope, can_use_model
from corral.domain.errors import NotAllowed, StoreUnavailable
from corral.store.database import Database
from tests.api.test_authentication import make_key
from tests.api.test_sessions import as_browser, log_in, secret_of
from tests.api.test_users import make_user
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import join_node
from tests.support.statements import count_statements


class ShiftedClock(SystemClock):
    """As if so much time had gone by; another process has another beginning of its monotonic clock."""

    def __init__(self, shift_s: float = 0.0, *, began_s: float = 0.0) -> None:
        self.shift_s = shift_s
        self._began_s = began_s

    def monotonic(self) -> float:
        return super().monotonic() + self.shift_s - self._began_s

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.shift_s)


async def test_key_is_known_from_memory_with_everything_that_it_may(
    frontend: RunningFrontend, database: Database
) -> None:
    limits = [{"model": "m", "requests_per_minute": 5}]
    made = await make_key(frontend, name="shop", scope="infer", models=["a", "b-*"], limits=limits)
    directory = CredentialDirectory(database, SystemClock())
    assert directory.find_known_principal(made["key"]) is None
    await directory.load()
    statements: list[str] = []
    count_statements(database, statements.append)
    principal = Principal(
        key_id=made["id"],
        name="shop",
        scope=Scope.INFER,
        models=("a", "b-*"),
        limits=(KeyLimit(model="m", requests_per_minute=5),),
    )
    assert (
        directory.find_known_principal(made["key"]) == directory.find_known_principal(made["key"].encode()) == principal
    )
    assert directory.find_known_principal(made["key"] + "x") is None
    assert directory.find_known_principal("") is None
    assert statements == []


async def test_key_in_memory_ends_at_its_expiry(frontend: RunningFrontend, database: Database) -> None:
    made = await make_key(frontend, expires_in_s=3600)
    clock = ShiftedClock()
    directory = CredentialDirectory(database, clock)
    await directory.load()
    clock.shift_s = 3590
    assert directory.find_known_principal(made["key"]) is not None
    clock.shift_s = 3610
    assert directory.find_known_principal(made["key"]) is None


async def test_keys_and_sessions_work_while_postgresql_is_away(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_user(frontend, scope="operate")
    cookie = secret_of((await log_in(frontend))[2])
    made = await make_key(frontend, scope="infer")
    await frontend.core.directory.load()
    for loop in frontend.core.loops.after_boot:
        await loop.stop()

    def away() -> None:
        raise StoreUnavailable

    monkeypatch.setattr(frontend.database, "transaction", away)
    assert (await frontend.call("GET", "/api/me", key=made["key"]))[0] == 200
    assert (await frontend.call("GET", "/v1/models", key=made["key"]))[0] == 200
    status, me = await as_browser(frontend, cookie, "/api/me")
    assert (status, me["name"], me["scope"]) == (200, "ada", "operate")
    assert (await frontend.call("GET", "/api/me", key="ck_nobody"))[0] == 503
    assert (await as_browser(frontend, "cs_nobody", "/api/me"))[0] == 503
    monkeypatch.undo()


async def test_saved_directory_has_no_secret_and_restores_the_same_in_another_process(
    frontend: RunningFrontend, database: Database
) -> None:
    node = await join_node(frontend, "n")
    await make_user(frontend, scope="operate")
    cookie = secret_of((await log_in(frontend))[2])
    limits = [{"tokens_per_day": 7}]
    made = await make_key(frontend, scope="infer", models=["a"], limits=limits, expires_in_s=3600)
    directory = CredentialDirectory(database, SystemClock())
    await directory.load()
    kept = json.dumps(directory.to_saved_state())
    for secret in (ADMIN_KEY, made["key"], cookie, node.credential):
        assert secret not in kept
        assert secret[4:] not in kept

    clock = ShiftedClock(began_s=SystemClock().monotonic())
    other = CredentialDirectory(database, clock)
    other.from_saved_state(json.loads(kept))
    for secret in (ADMIN_KEY, made["key"]):
        assert other.find_known_principal(secret) == directory.find_known_principal(secret) is not None
    assert (await other.authenticate_session(cookie)).name == "ada"
    assert (await other.authenticate_node(node.id, node.credential)).name == "n"
    clock.shift_s = 3610
    assert other.find_known_principal(made["key"]) is None
    assert other.find_known_principal(ADMIN_KEY) is not None


@pytest.mark.parametrize(
    ("models", "name", "names", "is_allowed"),
    [
        (None, "llama", (), True),
        ((), "llama", (), False),
        (("llama",), "llama", (), True),
        (("llama",), "llama-2", (), False),
        (("llama-*",), "llama-2", (), True),
        (("llama-?",), "llama-22", (), False),
        (("qwen[23]",), "qwen3", (), True),
        (("LLAMA",), "llama", (), False),
        (("fast",), "llama", ("llama", "fast"), True),
        (("other", "*-7b"), "m-7b", (), True),
        (("org/*",), "org/model", (), True),
    ],
)
def test_patterns_of_a_list_are_matched_whole_and_with_their_capitals(
    models: tuple[str, ...] | None, name: str, names: tuple[str, ...], is_allowed: bool
) -> None:
    principal = Principal(key_id="k", name="k", models=models)
    assert can_use_model(principal, name, names) is is_allowed


@pytest.mark.behaviour("GW-111")
def test_key_of_an_agent_node_is_limited_to_inference_whatever_its_scope() -> None:
    agent = Principal(key_id="k", name="agent x", node_id="n", scope=Scope.ADMIN)
    assert require_scope(agent, Scope.INFER) is agent
    for scope in (Scope.OPERATE, Scope.ADMIN):
        with pytest.raises(NotAllowed, match="belongs to an agent node"):
            require_scope(replace(agent, scope=Scope.INFER), scope)
        assert not agent.may(scope)


def test_clock_of_this_test_is_another_one() -> None:
    assert ShiftedClock(60).wall() > datetime.now(UTC)
