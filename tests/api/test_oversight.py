"""What admins and operators read beside the stream: curves, settings, and who did what."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from corral.app.frontend import list_shown_settings
from corral.app.settings import FrontendSettings, load_settings
from corral.domain.errors import StoreUnavailable
from corral.insight.history import CLUSTER_NAMES, NODE_NAMES
from corral.store import access as access_store
from corral.store import nodes as node_store
from corral.store.database import Transaction
from tests.api.operations import assert_envelope
from tests.insight.records import record
from tests.serving.scene import keep_only_the_feed, settled
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import GIB, join_node

SEED = "SA" + "A" * 56


@pytest.fixture
async def quiet(frontend: RunningFrontend) -> RunningFrontend:
    await keep_only_the_feed(frontend)
    return frontend


async def note(frontend: RunningFrontend) -> None:
    frontend.core.live_views.nodes._read_at = None
    await frontend.core.live_views.record_history()


async def test_curves_tell_of_requests_times_and_memory_and_of_nodes_that_are_there(quiet: RunningFrontend) -> None:
    status, empty = await quiet.call("GET", "/api/history")
    assert (status, empty["step_s"]) == (200, 5)
    first, second = await join_node(quiet, "gpu-a"), await join_node(quiet, "gpu-b")
    for node in (first, second):
        await node.heartbeat(total_vram=24 * GIB, available_vram=18 * GIB)
    await quiet.core.request_monitor.tick()
    for _ in range(20):
        quiet.core.request_monitor.tally.on_requests_ended(record())
    await note(quiet)
    assert (await second.call_as_admin("POST", "/drain"))[0] == 200
    async with quiet.database.transaction() as tx:
        await node_store.update_node(tx, second.id, {"liveness": "lost"})  # type: ignore[arg-type] # a node's id is text here
    await note(quiet)
    _, past = await quiet.call("GET", "/api/history?minutes=60")
    assert set(past["series"]) == set(CLUSTER_NAMES)
    assert {len(values) for values in past["series"].values()} == {len(past["at"])}
    assert past["series"]["vram_total"][-2:] == pytest.approx([48 * GIB, 24 * GIB], rel=1e-6)
    assert past["series"]["vram_used"][-2:] == pytest.approx([12 * GIB, 6 * GIB], rel=1e-6)
    # The first of the two moments: rates are those of the last seconds, which may pass before the other one.
    assert past["series"]["requests_per_s"][-2] > 0
    assert past["series"]["first_byte_p95_s"][-2] == pytest.approx(0.1, abs=0.05)
    assert past["series"]["waiting"][-1] == past["series"]["in_flight"][-1] == 0


async def test_curves_survive_a_restart_of_the_frontend(database_url: str) -> None:
    async with running_frontend(database_url) as before:
        await keep_only_the_feed(before)
        node = await join_node(before, "gpu-a")
        await node.heartbeat(total_vram=24 * GIB, available_vram=18 * GIB)
        await note(before)
        assert await before.core.live_views.history_keeper.tick()
    async with running_frontend(database_url) as after:
        await keep_only_the_feed(after)
        await note(after)
        _, past = await after.call("GET", "/api/history")
        _, of_node = await after.call("GET", "/api/nodes/gpu-a/history")
        assert past["at"] == sorted(past["at"])
        assert past["series"]["vram_used"][0] == pytest.approx(6 * GIB, rel=1e-6)
        assert of_node["series"]["vram_used"][0] == pytest.approx(6 * GIB, rel=1e-6)
        own = after.core.live_views.history
        assert own._count < len(past["at"]), "the first is from before the start"


async def test_moments_of_history_are_kept_once_a_minute_and_for_an_hour(quiet: RunningFrontend) -> None:
    await note(quiet)
    keeper = quiet.core.live_views.history_keeper
    assert await keeper.tick() is True
    assert await keeper.tick() is False, "a second leader writes nothing within the same minute"
    async with quiet.database.transaction() as tx:
        await tx.execute(text("UPDATE history_moments SET at = at - interval '2 hours'"))
    assert await keeper.tick() is True
    async with quiet.database.transaction() as tx:
        assert (await tx.execute(text("SELECT count(*) FROM history_moments"))).scalar_one() == 1


@pytest.mark.parametrize("minutes", ["0", "61", "-5", "many"])
async def test_history_of_more_than_an_hour_is_refused(quiet: RunningFrontend, minutes: str) -> None:
    status, answer = await quiet.call("GET", f"/api/history?minutes={minutes}")
    assert status == 400
    assert "minutes" in assert_envelope(answer)["message"]


async def test_node_history_is_found_by_id_and_name_and_has_gaps_without_heartbeats(
    quiet: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await join_node(quiet, "gpu-a")
    await node.heartbeat(total_ram=64 * GIB, available_ram=60 * GIB, available_disk=100 * GIB)
    await settled(quiet)
    await note(quiet)
    with monkeypatch.context() as outage:

        async def away(_: Transaction) -> list[node_store.NodeReading]:
            raise StoreUnavailable

        outage.setattr(node_store, "list_readings", away)
        await note(quiet)
    await note(quiet)
    status, past = await quiet.call("GET", f"/api/nodes/{node.id}/history")
    assert status == 200
    assert set(past["series"]) == set(NODE_NAMES)
    before, between, now = past["series"]["ram_used"][-3:]
    assert between is None
    assert [before, now] == pytest.approx([4 * GIB] * 2, rel=1e-6)
    assert past["series"]["disk_free"][-1] == pytest.approx(100 * GIB, rel=1e-6)
    assert past["series"]["vram_used"][-1] is None, "a value that was never reported is not zero"
    assert (await quiet.call("GET", "/api/nodes/gpu-a/history"))[1] == past
    status, answer = await quiet.call("GET", "/api/nodes/nobody/history")
    assert status == 404
    assert_envelope(answer, code="node_not_found")


async def test_admins_see_every_setting_with_where_it_came_from_and_no_secret(database_url: str) -> None:
    environ = {
        "CORRAL_DATABASE_URL": "postgresql://corral:hunter2@db:5432/corral",
        "CORRAL_NATS_URL": "nats://bus:4222",
        "CORRAL_NATS_ACCOUNT_SEED": SEED,
        "CORRAL_NODE_LEASE": "50s",
        "CORRAL_ADMIN_KEY": "ck_0123456789abcdef0123456789abcdef",
    }
    loaded = load_settings(FrontendSettings, environ=environ)
    async with running_frontend(database_url, settings=list_shown_settings(loaded)) as frontend:
        status, answer = await frontend.call("GET", "/api/settings")
        assert status == 200
        text = str(answer)
        for secret in ("hunter2", SEED, "ck_0123"):
            assert secret not in text
        shown = {one["name"]: one for one in answer["settings"]}
        assert shown["node_lease"] == {
            "name": "node_lease",
            "value": "50s",
            "source": "environment CORRAL_NODE_LEASE",
            "section": "nodes",
            "sentence": "A node without a heartbeat for this long is offline.",
            "is_secret": False,
            "is_live": False,
        }
        assert (shown["admin_key"]["value"], shown["admin_key"]["is_secret"]) == ("••••", True)
        assert (shown["oidc_issuer"]["value"], shown["oidc_issuer"]["source"]) == (None, "default")
        assert "general" not in {one["section"] for one in answer["settings"]}, "every setting has its section"
        assert len(shown) == len(FrontendSettings.model_fields)
        assert answer["answered_by"] == frontend.core.api_deps.frontend_id


async def test_audit_log_is_paged_without_gaps_while_entries_are_added(quiet: RunningFrontend) -> None:
    async with quiet.database.transaction() as tx:
        for number in range(10):
            await access_store.record_audit(tx, "alice", "node.approve", f"node-{number}", "because")
    status, page = await quiet.call("GET", "/api/audit?limit=4")
    assert status == 200
    newest = page["entries"][0]
    assert (newest["actor"], newest["action"], newest["target"]) == ("alice", "node.approve", "node-9")
    assert newest["detail"] == "because"
    assert newest["at"]
    seen = [entry["id"] for entry in page["entries"]]
    while page["next"] is not None:
        async with quiet.database.transaction() as tx:
            await access_store.record_audit(tx, "bob", "key.create", "later")
        _, page = await quiet.call("GET", f"/api/audit?limit=4&before={page['next']}")
        seen += [entry["id"] for entry in page["entries"]]
    assert seen == sorted(set(seen), reverse=True)
    async with quiet.database.transaction() as tx:
        known = [row["id"] for row in await access_store.list_audit(tx, 500) if row["target"] != "later"]
    assert seen == known


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "before=0", "before=x"])
async def test_page_of_the_audit_that_makes_no_sense_is_refused(quiet: RunningFrontend, query: str) -> None:
    status, answer = await quiet.call("GET", f"/api/audit?{query}")
    assert status == 400
    assert_envelope(answer)
