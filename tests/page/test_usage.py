"""Usage in a browser: what everybody has used, what I have, and what is left."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.page.support import Fleet, axe, come_in, leave
from tests.support.polling import eventually


def ask_as(fleet: Fleet, key: str, model: str, times: int) -> None:
    async def post() -> None:
        headers = {"Authorization": f"Bearer {key}"}
        body = {"model": model, "messages": [{"role": "user", "content": "Who goes there?"}]}
        for _ in range(times):
            url = f"{fleet.url()}/v1/chat/completions"
            async with fleet.models.cluster.http.post(url, json=body, headers=headers) as answer:
                assert answer.status == 200, await answer.text()

    fleet.run(post())


def counted(fleet: Fleet, model: str, times: int) -> Any:
    """The usage of that model, once so many requests are in it."""

    async def look() -> Any:
        _, used = await fleet.models.call("GET", "/api/usage?by=model")
        rows = [row for row in used["rows"] if row["model"] == model]
        return rows[0] if rows and rows[0]["requests"] >= times else None

    return fleet.run(eventually(look, within_s=60))


def cells(page: Page, name: str) -> Locator:
    return page.get_by_role("row", name=name).get_by_role("cell")


@pytest.mark.behaviour("PAGE-127")
def test_usage_page_shows_models_and_keys_over_time_and_exports_a_file(
    page: Page, fleet: Fleet, tmp_path: Path
) -> None:
    fleet.run(fleet.models.put("sheep"))
    fleet.run(fleet.models.put("goat"))
    bakery, other = fleet.new_key("infer", name="bakery"), fleet.new_key("infer", name="mill")
    ask_as(fleet, bakery, "sheep", 3)
    ask_as(fleet, other, "goat", 1)
    assert counted(fleet, "sheep", 3)["requests"] == 3
    assert counted(fleet, "goat", 1)["requests"] == 1
    total = fleet.get("/api/usage?by=model")["total"]
    tokens = total["prompt_tokens"] + total["completion_tokens"]

    page.goto(f"{fleet.url()}/app/")
    page.get_by_role("link", name="Usage").click()
    expect(page.get_by_role("heading", name="By model")).to_be_visible()
    expect(cells(page, "sheep").nth(0)).to_have_text("3")
    expect(cells(page, "sheep").nth(1)).to_have_text("0")
    expect(cells(page, "Total").nth(0)).to_have_text(str(total["requests"]))
    expect(page.get_by_role("img", name=f"{tokens:,} tokens in this period")).to_be_visible()
    assert axe(page) == []

    page.get_by_role("button", name="goat", exact=True).click()
    page.locator("fieldset.segments label", has_text="Requests").click()
    expect(page.get_by_role("img", name="1 request in this period")).to_be_visible()
    page.locator("fieldset.segments label", has_text="24 hours").click()
    for part in ("only=goat", "of=requests", "span=day"):
        expect(page).to_have_url(re.compile(part))
    page.reload()
    expect(page.get_by_role("heading", name="Requests per hour")).to_be_visible()
    expect(page.get_by_role("img", name="1 request in this period")).to_be_visible()

    page.locator("fieldset.segments label", has_text="Keys").click()
    expect(page.get_by_role("row", name="bakery")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    file = tmp_path / "usage.csv"
    download.value.save_as(file)
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert {row["key"]: row["requests"] for row in rows}.items() >= {"bakery": "3", "mill": "1"}.items()

    nodes = {row["node"]: row["requests"] for row in fleet.get("/api/usage?by=node")["rows"]}
    node, requests = max(nodes.items(), key=lambda item: (item[0] != "", item[1]))
    page.locator("fieldset.segments label", has_text="Nodes").click()
    page.get_by_role("button", name=node, exact=True).click()
    expect(cells(page, node).nth(0)).to_have_text(str(requests))
    expect(page).to_have_url(re.compile("by=node"))
    expect(page).to_have_url(re.compile(f"only={node}"))
    page.reload()
    expect(page.get_by_role("heading", name="By node")).to_be_visible()
    expect(page.get_by_role("img", name=f"{requests} request")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    download.value.save_as(file)
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert sum(int(row["requests"]) for row in rows if row["node"] == node) == requests
    leave(page)
    fleet.run(fleet.models.forget("sheep", "goat"))


def test_inference_key_sees_its_own_usage_and_quotas(context: BrowserContext, fleet: Fleet) -> None:
    fleet.run(fleet.models.put("lamb"))
    limits = [{"requests_per_minute": 50, "tokens_per_day": 5000}]
    own, other = fleet.new_key("infer", name="own", limits=limits), fleet.new_key("infer", name="not mine")
    ask_as(fleet, own, "lamb", 2)
    ask_as(fleet, other, "lamb", 1)
    used = counted(fleet, "lamb", 3)
    each = (used["prompt_tokens"] + used["completion_tokens"]) // 3
    come_in(context, fleet.url(), own)
    page = context.new_page()
    page.goto(f"{fleet.url()}/app/usage")
    expect(page.get_by_role("row", name="lamb")).to_be_visible()
    expect(cells(page, "lamb").nth(0)).to_have_text("2")
    left = page.get_by_role("meter", name="All models, this day")
    expect(left).to_have_attribute("aria-valuetext", f"{5000 - 2 * each:,} of 5,000 tokens left")
    expect(page.get_by_text("50 requests per minute")).to_be_visible()
    page.locator("fieldset.segments label", has_text="Keys").click()
    expect(page.get_by_role("row", name="own")).to_be_visible()
    expect(page.get_by_text("not mine")).to_have_count(0)
    assert axe(page) == []
    leave(page)
    fleet.run(fleet.models.forget("lamb"))
