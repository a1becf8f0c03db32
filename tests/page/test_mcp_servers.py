"""Declared MCP servers in a browser: admins declare, change and delete them, others see their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.page.run_scene import RunScene, run_scene
from tests.page.support import (
    BackgroundLoop,
    BrowserErrors,
    axe_by_day_and_night,
    come_in,
    expect_fits,
    keep_toasts,
    leave,
)

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, postgres: str) -> Iterator[RunScene]:
    with run_scene(aside, postgres) as scene:
        yield scene


@pytest.fixture
def scene(yard: RunScene) -> Iterator[RunScene]:
    yield yard
    for server in list_servers(yard):
        yard.call("DELETE", f"/api/mcp/servers/{server['name']}")


@pytest.fixture
def page(context: BrowserContext, scene: RunScene) -> Iterator[Page]:
    come_in(context, scene.url)
    page = context.new_page()
    page.goto(f"{scene.url}/app/access?tab=mcp")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    yield page
    leave(page)


def list_servers(scene: RunScene) -> Any:
    return scene.call("GET", "/api/mcp/servers")[1]["servers"]


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="MCP servers").get_by_role("listitem", name=name, exact=True)


def add_pair(page: Page, noun: str, name: str, value: str) -> None:
    page.get_by_role("button", name=f"Add {noun}").click()
    page.get_by_label(f"Name of {noun} 1").fill(name)
    page.get_by_label(f"Value of {noun} 1").fill(value)


@pytest.mark.behaviour("PAGE-225")
def test_program_is_declared_with_arguments_and_secrets_then_changed_and_deleted(page: Page, scene: RunScene) -> None:
    keep_toasts(page)
    expect(page.get_by_text("No MCP servers are declared.")).to_be_visible()
    page.get_by_role("button", name="New MCP server").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Declare server").click()
    expect(dialog.get_by_text("A server needs a name.")).to_be_visible()
    expect(dialog.get_by_text("A server that is a program needs a command.")).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("clock")
    dialog.get_by_label("Description").fill("Tells the time")
    dialog.get_by_label("Command").fill("uvx")
    dialog.get_by_label("Arguments").fill("mcp-server-time\n--local-timezone=Europe/Rome")
    add_pair(page, "variable", "API_TOKEN", "cluster-secret:clock")
    dialog.get_by_role("button", name="Declare server").click()
    expect(row(page, "clock")).to_contain_text("uvx mcp-server-time --local-timezone=Europe/Rome")
    [stored] = list_servers(scene)
    assert stored["config"]["args"] == ["mcp-server-time", "--local-timezone=Europe/Rome"]
    assert stored["config"]["env"] == {"API_TOKEN": "cluster-secret:clock"}

    page.get_by_role("button", name="Edit clock").click()
    dialog.get_by_label("Description").fill("Tells the time in Rome")
    dialog.get_by_role("button", name="Save").click()
    expect(row(page, "clock")).to_contain_text("Tells the time in Rome")
    [changed] = list_servers(scene)
    assert changed["config"] == stored["config"]

    page.get_by_role("button", name="Actions for clock").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(dialog).to_contain_text("Agents and tasks that use it fail from now on.")
    dialog.get_by_role("button", name="Cancel").click()
    assert len(list_servers(scene)) == 1
    page.get_by_role("button", name="Actions for clock").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog.get_by_role("button", name="Delete clock").click()
    expect(page.get_by_text("Deleted MCP server clock.")).to_be_visible()
    expect(page.get_by_text("No MCP servers are declared.")).to_be_visible()


@pytest.mark.behaviour("PAGE-225")
def test_address_with_a_secret_in_clear_is_refused_and_with_a_reference_declared(
    page: Page, scene: RunScene, watched: BrowserErrors
) -> None:
    watched.allow(r"status of 400 .*/api/mcp/servers/barn")
    page.get_by_role("button", name="New MCP server").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("barn")
    dialog.locator("fieldset.segments label", has_text="HTTP").click()
    dialog.get_by_label("Address").fill("http://10.0.0.7:9000/mcp")
    add_pair(page, "header", "Authorization", "Bearer hay")
    dialog.get_by_role("button", name="Declare server").click()
    alert = dialog.get_by_role("alert")
    expect(alert).to_contain_text("Authorization of barn holds a secret in clear.")
    expect(alert).to_contain_text("Store it on the page of secrets")
    dialog.get_by_label("Value of header 1").fill("Bearer cluster-secret:barn")
    dialog.get_by_role("button", name="Declare server").click()
    expect(row(page, "barn")).to_contain_text("http://10.0.0.7:9000/mcp")
    [stored] = list_servers(scene)
    assert (stored["transport"], stored["config"]["command"]) == ("http", "")


def test_name_that_is_taken_does_not_replace_the_server_that_has_it(page: Page, scene: RunScene) -> None:
    # Another admin declares it: the page learns of it from the stream.
    scene.call("PUT", "/api/mcp/servers/clock", {"command": "uvx"})
    expect(row(page, "clock")).to_be_visible()
    page.get_by_role("button", name="New MCP server").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("clock")
    dialog.get_by_label("Command").fill("other")
    dialog.get_by_role("button", name="Declare server").click()
    expect(dialog.get_by_text("There is a server clock already.")).to_be_visible()
    assert list_servers(scene)[0]["config"]["command"] == "uvx"


@pytest.mark.behaviour("PAGE-225")
def test_caller_who_may_only_infer_sees_names_and_no_commands(
    browser: Browser, scene: RunScene, watched: BrowserErrors
) -> None:
    key, _ = scene.new_key("reader")
    scene.call("PUT", "/api/mcp/servers/clock", {"command": "uvx", "description": "Tells the time"})
    context = browser.new_context()
    try:
        context.on("page", watched.watch)
        come_in(context, scene.url, key)
        page = context.new_page()
        page.goto(f"{scene.url}/app/access")
        page.locator("fieldset.segments label", has_text="MCP servers").click()
        expect(row(page, "clock")).to_contain_text("Tells the time")
        expect(row(page, "clock")).not_to_contain_text("uvx")
        expect(row(page, "clock").get_by_role("button")).to_have_count(0)
        expect(page.get_by_role("button", name="New MCP server")).to_have_count(0)
        expect(page.locator("fieldset.segments label")).to_have_text(["Secrets", "MCP servers"])
    finally:
        context.close()


def test_mcp_servers_have_no_serious_fault_and_fit_a_phone(page: Page, scene: RunScene) -> None:
    body = {"command": "x" * 200, "description": "y" * 200, "env": {"API_TOKEN": "cluster-secret:clock"}}
    scene.call("PUT", "/api/mcp/servers/a-long-name-that-somebody-chose-for-a-server", body)
    expect(page.get_by_text("a-long-name").first).to_be_visible()
    found = axe_by_day_and_night(page)
    page.get_by_role("button", name="Edit a-long-name").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += axe_by_day_and_night(page)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    expect_fits(page)
    assert found == []
