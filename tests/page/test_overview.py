"""The overview in a browser: what needs somebody, the fleet in numbers, curves, and the way to a first model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.e2e.models.scene import models_of
from tests.e2e.models.system import llama_folder
from tests.page.support import (
    LONG_MS,
    BackgroundLoop,
    BrowserErrors,
    Fleet,
    answering,
    axe_by_day_and_night,
    come_in,
    expect_fits,
    leave,
)
from tests.support.polling import eventually

MODEL = "smollm2-135m"
# While it exists in the folder of the cluster, no llama.cpp starts.
HOLD = "hold"
AWAY = re.compile(
    r"PostgreSQL is away since .*: what is known is served, nothing can be changed\. Serving 1 of 1 loaded model\."
)


@pytest.fixture(scope="module")
def fleet(built_page: None, aside: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One frontend and two workers, which have llama.cpp: a first model needs no more than its own file."""
    folder = tmp_path_factory.mktemp("overview")
    system = llama_folder(folder / "system", hold=folder / HOLD)
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(system)}
    with aside.inside(models_of(folder, "worker-1", "worker-2", frontends=1, settings=settings)) as models:
        yield Fleet(aside, models)


@pytest.fixture
def page(page: Page, fleet: Fleet) -> Page:
    page.goto(f"{fleet.url()}/app/")
    return page


def attention(page: Page) -> Locator:
    return page.get_by_role("region", name="Needs attention")


@pytest.mark.behaviour("PAGE-61")
def test_node_that_waits_is_let_in_with_one_click(page: Page, fleet: Fleet) -> None:
    expect(page.get_by_text("Everything is healthy.")).to_be_visible()
    cluster = fleet.models.cluster

    async def join() -> None:
        await cluster.new_worker("newcomer", await cluster.token(max_uses=1)).start()
        await cluster.become({"newcomer": "pending"})

    fleet.run(join())
    expect(attention(page)).to_contain_text("newcomer is waiting for approval.")
    numbers = page.get_by_role("region", name="The fleet in numbers")
    expect(numbers.get_by_role("link", name="Nodes")).to_contain_text("2")
    attention(page).get_by_role("button", name="Approve newcomer").click()
    expect(numbers.get_by_role("link", name="Nodes")).to_contain_text("3")
    expect(page.get_by_text("Everything is healthy.")).to_be_visible()

    async def leave() -> None:
        await cluster.workers["newcomer"].end()
        await cluster.become({"newcomer": "offline"})

    fleet.run(leave())
    expect(attention(page)).to_contain_text("newcomer is offline.")
    fleet.call("DELETE", "/api/nodes/newcomer")
    expect(page.get_by_text("Everything is healthy.")).to_be_visible()
    del cluster.workers["newcomer"]


def test_numbers_and_curves_move_while_a_model_answers(page: Page, fleet: Fleet) -> None:
    fleet.run(fleet.models.put("busy", options={"tokens_per_s": 20, "slots": 2}))
    fleet.run(fleet.models.loaded("busy", "worker-1"))
    numbers = page.get_by_role("region", name="The fleet in numbers")
    expect(numbers.get_by_role("link", name="Replicas")).to_contain_text("loaded, of 1 model")

    with answering(fleet, "busy"):
        row = page.get_by_role("row", name=re.compile("busy"))
        expect(row.get_by_role("cell").nth(2)).to_have_text("1")
        curve = page.get_by_role("img", name=re.compile(r"Tokens per second\. Now tokens.s: [1-9]"))
        expect(curve).to_be_visible()
        # What was before the page was opened is in the curves of a page that is opened now.
        page.reload()
        expect(page.get_by_role("img", name=re.compile(r"Tokens per second\. Now"))).to_be_visible()
    expect(row.get_by_role("cell").nth(2)).to_have_text("0")
    fleet.run(fleet.models.forget("busy"))


def test_failure_leads_to_its_operation_and_goes_when_it_is_dismissed(page: Page, fleet: Fleet) -> None:
    fleet.run(fleet.models.put("stubborn", options={"refuse_start": 1}))
    key = fleet.run(fleet.models.load("stubborn"))
    fleet.run(fleet.models.becomes(key, "failed"))
    expect(attention(page)).to_contain_text("Failed load of stubborn.")
    attention(page).get_by_role("link", name="See why: Failed load of stubborn.").click()
    expect(page).to_have_url(re.compile(f"operations.*{key}"))
    # Whoever leaves before the frontend has answered may not have dismissed it.
    with page.expect_response(re.compile(f"{key}/dismiss")):
        page.get_by_role("complementary").get_by_role("button", name="Dismiss: load of stubborn").click()
    page.goto(f"{fleet.url()}/app/")
    fleet.run(fleet.models.forget("stubborn"))
    expect(page.get_by_text("Everything is healthy.")).to_be_visible()


@pytest.mark.behaviour("PAGE-67")
def test_overview_shows_a_postgresql_outage_and_its_end_without_a_reload(
    page: Page, fleet: Fleet, watched: BrowserErrors
) -> None:
    # Whatever the page reads anew meanwhile is refused.
    watched.allow(r"status of 503")
    fleet.run(fleet.models.put("steady"))
    fleet.run(fleet.models.loaded("steady", "worker-1"))
    numbers = page.get_by_role("region", name="The fleet in numbers")
    expect(numbers.get_by_role("link", name="Replicas")).to_contain_text("loaded, of 1 model")
    expect(page.get_by_text("Everything is healthy.")).to_be_visible()
    page.evaluate("window.isTheSamePage = true")
    postgres = fleet.models.cluster.postgres

    fleet.run(postgres.kill())
    try:
        expect(attention(page)).to_contain_text(AWAY)
        # What is known is still shown, and is still served.
        expect(numbers.get_by_role("link", name="Replicas")).to_contain_text("loaded, of 1 model")
        fleet.run(fleet.models.answers("steady"))
        # Once here, and at the top of every other page.
        expect(page.get_by_text(AWAY)).to_have_count(1)
        page.get_by_role("link", name="Usage").click()
        expect(page.get_by_role("status").get_by_text(AWAY)).to_be_visible()
        page.get_by_role("link", name="Overview").click()
        expect(attention(page)).to_contain_text(AWAY)
    finally:
        fleet.run(postgres.start())
    expect(attention(page).get_by_text(AWAY)).to_have_count(0)
    expect(page.get_by_text("Everything is healthy.")).to_be_visible()
    assert page.evaluate("window.isTheSamePage") is True
    fleet.run(fleet.models.cluster.become({"worker-1": "healthy", "worker-2": "healthy"}, on_bus=True))
    fleet.run(fleet.models.forget("steady"))


@pytest.mark.behaviour("PAGE-64")
def test_empty_cluster_is_one_button_away_from_a_model(page: Page, fleet: Fleet) -> None:
    first = page.get_by_role("region", name="First steps")
    expect(first).to_contain_text("No model is running yet")
    hold = fleet.models.cluster.folder / HOLD
    hold.touch()
    try:
        first.get_by_role("button", name="Try a small model").click()
        expect(first).to_contain_text("Your first model is loading")
        fetching = fleet.run(eventually(lambda: _installation(fleet)))
        ended = fleet.run(fleet.models.becomes(fetching["id"], "completed", "failed"))
        if ended["state"] == "failed":
            pytest.skip(f"the model cannot be fetched here: {ended['error']}")
        hold.unlink()
        expect(page).to_have_url(re.compile(f"playground.*{MODEL}"), timeout=LONG_MS)
    finally:
        hold.unlink(missing_ok=True)
        leave(page)
        _forget(fleet)


async def _installation(fleet: Fleet) -> Any:
    found = [
        one
        for path in ("/api/operations", "/api/operations/history")
        for one in (await fleet.models.call("GET", path))[1]["operations"]
    ]
    return next((one for one in found if (one["name"], one["kind"]) == (MODEL, "model_install")), None)


def _all(fleet: Fleet) -> list[Any]:
    live = fleet.get("/api/operations")["operations"]
    return [one for one in live + fleet.get("/api/operations/history")["operations"] if one["name"] == MODEL]


def _forget(fleet: Fleet) -> None:
    for one in _all(fleet):
        fleet.call("POST", f"/api/operations/{one['id']}/cancel")
        fleet.call("POST", f"/api/operations/{one['id']}/dismiss")
    fleet.run(fleet.models.forget(MODEL))


def test_overview_is_accessible(page: Page) -> None:
    expect(page.get_by_role("img", name=re.compile("Tokens per second"))).to_be_visible()
    assert axe_by_day_and_night(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect_fits(page)


def test_inference_key_is_redirected_to_the_playground(context: BrowserContext, fleet: Fleet) -> None:
    come_in(context, fleet.url(), fleet.new_key("infer"))
    page = context.new_page()
    page.goto(f"{fleet.url()}/app/")
    expect(page).to_have_url(re.compile("/app/playground"))
