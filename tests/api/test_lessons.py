"""What pages of the systems before this one showed wrongly; `docs/explanation/lessons.md` has the whole list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.backends import BACKEND, ask, held, install, live, newest, report, shown, until_state
from tests.api.streams import open_stream
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node


async def _entry(frontend: RunningFrontend) -> Any:
    status, page = await frontend.call("GET", f"/api/backends?term={BACKEND}")
    assert status == 200, page
    assert set(page["processingBackends"]) <= {BACKEND}
    return next(one for one in page["backends"] if one["name"] == BACKEND)


@pytest.mark.behaviour("OPS-19")
async def test_failure_is_listed_with_its_error_and_nothing_is_shown_as_busy(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    operation = await install(frontend)
    await until_state(frontend, operation["id"], "completed_with_pending")
    assert (await node.call_as_admin("DELETE", ""))[0] == 200
    await until_state(frontend, operation["id"], "failed")
    assert [(one["id"], bool(one["error"])) for one in await live(frontend)] == [(operation["id"], True)]
    assert (await _entry(frontend))["processing"] is False


async def test_operation_on_one_node_does_not_show_other_nodes_as_busy(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    await join_node(frontend, "b")
    await held(frontend)
    operation = await ask(frontend, "/api/nodes/a/backends/install", {"backend": BACKEND})
    assert (await _entry(frontend))["processing"] is False
    assert [one["nodeName"] for one in await live(frontend)] == ["a"]
    assert (await shown(frontend, operation["id"]))["name"] == BACKEND


async def test_event_stream_reports_a_changed_backend_version_and_the_upgrade_disappears(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, "a")
    await report(node, {"name": BACKEND, "version": "1.0.0", "gallery": "corral"})
    assert BACKEND in (await frontend.call("GET", "/api/backends/upgrades"))[1]
    async with open_stream(frontend.url) as events:
        assert (await events.next()).event == "hello"
        await report(node, {"name": BACKEND, "version": await newest(frontend), "gallery": "corral"})
        assert json.loads((await events.until("node.backends_changed"))[-1].data)["key"] == node.id
    assert BACKEND not in (await frontend.call("GET", "/api/backends/upgrades"))[1]
    (listed,) = (await frontend.call("GET", "/backends"))[1]
    assert (listed["version"], listed["has_upgrade"]) == (await newest(frontend), False)
