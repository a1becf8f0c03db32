"""Nodes that are away and nodes that run agents: each looks like what it is, and every page counts them alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.support import BrowserErrors, Fleet, axe, leave

GIB = 2**30


@contextmanager
def registered(fleet: Fleet, name: str, **facts: Any) -> Iterator[None]:
    """A node that has registered and then sends nothing: it is lost when its lease has run out."""
    cluster = fleet.models.cluster

    async def come() -> None:
        body = {
            "name": name,
            "token": await cluster.token(max_uses=1, approves=True),
            "credential": f"{name:0<32}",
            "boot_id": "boot-0000",
            "address": "127.0.0.1:20000",
            "total_ram": 16 * GIB,
            "available_ram": 4 * GIB,
            "total_disk": 100 * GIB,
            "available_disk": 60 * GIB,
        } | facts
        status, answer = await cluster.frontends[0].call("POST", "/api/node/register", body, key=None)
        assert status in (200, 201), answer

    fleet.run(come())
    try:
        yield
    finally:
        fleet.call("DELETE", f"/api/nodes/{name}")


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Nodes").get_by_role("listitem", name=name, exact=True)


@pytest.mark.behaviour("PAGE-160")
def test_offline_node_looks_offline_and_shows_when_it_was_last_seen_and_what_to_do(page: Page, fleet: Fleet) -> None:
    vram = {"total_vram": 24 * GIB, "available_vram": 8 * GIB, "gpu_vendor": "nvidia"}
    with registered(fleet, "gone-box", **vram):
        page.goto(f"{fleet.url()}/app/nodes")
        gone = row(page, "gone-box")
        expect(gone.locator(".pill.bad")).to_have_text("offline")
        expect(gone.get_by_text(re.compile(r"^Last heartbeat .+ ago\. Values at that time:$"))).to_be_visible()
        gone.get_by_role("link", name="gone-box").click()
        expect(page.get_by_text(re.compile(r"last heartbeat .+ ago"))).to_be_visible()
        expect(page.get_by_text(re.compile("^Check that the machine is on and reaches this cluster"))).to_be_visible()
        conditions = page.get_by_role("region", name="Conditions")
        expect(conditions.get_by_text("Not known while the node is away")).to_be_visible()
        expect(conditions.get_by_text("Takes new work when it is back")).to_be_visible()
        expect(conditions.locator("li", has_text="NATS connection unknown").locator(".good")).to_have_count(0)
        expect(page.get_by_text(re.compile("^Data ends at the last heartbeat"))).to_be_visible()
        assert axe(page) == []
        leave(page)


def test_overview_and_nodes_count_the_same_nodes_and_the_same_memory(page: Page, fleet: Fleet) -> None:
    with registered(fleet, "gone-box", total_vram=24 * GIB, available_vram=8 * GIB):
        page.goto(f"{fleet.url()}/app/nodes")
        head = page.get_by_text(re.compile(r"^3 nodes · 2 healthy · 1 offline$"))
        expect(head).to_be_visible()
        page.goto(f"{fleet.url()}/app/")
        numbers = page.get_by_role("region", name="The fleet in numbers")
        expect(numbers.get_by_role("link", name="Nodes")).to_contain_text("2 of 3")
        expect(numbers.get_by_role("link", name="Nodes")).to_contain_text("2 healthy, 1 offline")
        expect(numbers.get_by_text("No reachable GPU")).to_be_visible()
        expect(numbers.get_by_text("Memory on 2 reachable nodes.")).to_be_visible()


def test_agent_node_is_a_kind_of_its_own_without_engines(page: Page, fleet: Fleet) -> None:
    with registered(fleet, "helper", node_type="agent", address=""):
        page.goto(f"{fleet.url()}/app/nodes")
        kinds = page.get_by_role("group", name="Kind")
        expect(kinds).to_be_visible()
        helper = row(page, "helper")
        expect(helper.get_by_text("agent", exact=True)).to_be_visible()
        expect(helper.get_by_text("no replicas")).to_have_count(0)
        kinds.get_by_text("Agent").click()
        expect(page.get_by_role("list", name="Nodes").locator("> li")).to_have_count(1)
        expect(page).to_have_url(re.compile("kind=agent"))
        kinds.get_by_text("Backend").click()
        expect(helper).to_have_count(0)
        page.goto(f"{fleet.url()}/app/nodes/helper")
        expect(page.get_by_role("heading", name="helper", level=1)).to_be_visible()
        expect(page.get_by_role("region", name="Conditions")).to_be_visible()
        for name in ("Replicas", "Backends", "Limits", "Processes"):
            expect(page.get_by_role("region", name=name, exact=True)).to_have_count(0)
        expect(page.get_by_role("tab")).to_have_count(0)
        expect(page.get_by_text("Load one")).to_have_count(0)
        assert axe(page) == []
        leave(page)


@pytest.mark.parametrize("tab", ["backends", "logs"])
def test_address_of_a_tab_that_agent_nodes_lack_shows_their_page(page: Page, fleet: Fleet, tab: str) -> None:
    with registered(fleet, "helper", node_type="agent", address=""):
        page.goto(f"{fleet.url()}/app/nodes/helper?tab={tab}")
        expect(page.get_by_role("region", name="Conditions")).to_be_visible()
        expect(page.get_by_text("is an agent node and runs no backend")).to_have_count(0)
        leave(page)


@pytest.mark.parametrize("tab", ["overview", "backends"])
def test_page_of_a_removed_node_says_so_and_requests_nothing_about_it_any_more(
    page: Page, fleet: Fleet, watched: BrowserErrors, tab: str
) -> None:
    with registered(fleet, "brief"):
        page.goto(f"{fleet.url()}/app/nodes/brief?tab={tab}")
        expect(page.get_by_role("heading", name="brief", level=1)).to_be_visible()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        key = fleet.get("/api/nodes/brief")["id"]
        # A request that is on its way while the node is removed finds it gone.
        watched.allow(rf"status of 404 .*/api/nodes/({key}|brief)")
        fleet.call("DELETE", "/api/nodes/brief")
        expect(page.get_by_text("brief was removed.")).to_be_visible()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        # Another node joins: the list is fetched again, and with it every other query of the page.
        with page.expect_response(re.compile(r"/api/nodes(\?.*)?$")), registered(fleet, "newcomer"):
            pass
        assert [url for url in requested if key in url] == []
        assert axe(page) == []
