"""Agents in a browser: their list and form, import and export, and the conversation with one as it happens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.page.agent_scene import AgentScene, agent_scene
from tests.page.support import (
    BackgroundLoop,
    BrowserErrors,
    axe_by_day_and_night,
    come_in,
    expect_fits,
    leave,
)
from tests.worker.relay import Relay

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
SHELL = {"call_id": "c1", "name": "shell", "arguments": {"command": "rm -r herd"}}
LOST = "The conversation continues when it is back."


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, postgres: str) -> Iterator[AgentScene]:
    with agent_scene(aside, postgres) as scene:
        yield scene


@pytest.fixture
def scene(yard: AgentScene) -> Iterator[AgentScene]:
    yield yard
    yard.forget_all()


@pytest.fixture
def page(context: BrowserContext, scene: AgentScene) -> Iterator[Page]:
    come_in(context, scene.url)
    page = context.new_page()
    yield page
    leave(page)


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Agents").get_by_role("listitem", name=re.compile(f"^{name}:"))


def turns(page: Page) -> Locator:
    return page.get_by_role("article")


def threads(page: Page) -> Locator:
    return page.get_by_role("list", name="Threads").get_by_role("listitem")


def message_field(page: Page, name: str = "helper") -> Locator:
    return page.get_by_role("textbox", name=f"Message to {name}")


def send(page: Page, text: str, name: str = "helper") -> None:
    message_field(page, name).fill(text)
    page.get_by_role("button", name="Send").click()


def open_chat(page: Page, scene: AgentScene, name: str = "helper", query: str = "") -> None:
    page.goto(f"{scene.url}/app/agents/{name}{query}")
    expect(message_field(page, name)).to_be_visible()


def choose(page: Page, agent: str, action: str) -> None:
    page.get_by_role("button", name=f"Actions for {agent}").click()
    page.get_by_role("menuitem", name=action).click()


@pytest.mark.behaviour("PAGE-200")
def test_first_agent_is_created_from_the_empty_list_and_answers(page: Page, scene: AgentScene) -> None:
    page.goto(f"{scene.url}/app/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Agents").click()
    expect(page.get_by_text("You have no agents yet.")).to_be_visible()
    page.get_by_role("button", name="Create your first agent").click()
    page.get_by_role("textbox", name="Name", exact=True).fill("helper")
    page.get_by_role("combobox", name="Model").select_option("chatty")
    page.get_by_role("textbox", name="System prompt").fill("You count sheep.")
    page.get_by_role("button", name="Create agent").click()
    expect(page.get_by_role("heading", name="Talk to helper")).to_be_visible()
    expect(page).to_have_title("helper · Agents · Corral")
    send(page, "How many sheep?")
    expect(turns(page)).to_contain_text("How many sheep?")
    turn = scene.take()
    turn.write("There are ", "**seven**.")
    expect(turns(page).locator("strong")).to_have_text("seven")
    turn.deliver(("usage", {"prompt_tokens": 70, "completion_tokens": 8}))
    turn.end("There are **seven**.")
    expect(turns(page)).to_contain_text("78 tokens")
    expect(threads(page)).to_have_count(1)
    expect(threads(page)).to_contain_text("How many sheep?")
    _, config = scene.call("GET", "/api/agents/helper/config")
    assert (config["system_prompt"], config["shared"], config["max_iterations"]) == ("You count sheep.", False, 10)


@pytest.mark.behaviour("PAGE-201")
def test_form_has_every_field_of_the_schema_and_none_beside_them(page: Page, scene: AgentScene) -> None:
    scene.create("other")
    assert scene.call("PUT", "/api/mcp/servers/time", {"command": "uvx", "description": "Tells the time"})[0] == 200
    page.goto(f"{scene.url}/app/agents?add=new")
    page.get_by_role("textbox", name="Name", exact=True).fill("full")
    page.get_by_role("combobox", name="Model").select_option("chatty")
    page.get_by_role("spinbutton", name="Temperature").fill("0.5")
    page.get_by_role("button", name="Add MCP server").click()
    server = page.get_by_role("group", name="MCP server 1")
    server.get_by_role("textbox", name="Address").fill("https://tools.example/mcp")
    server.get_by_role("textbox", name="Token").fill("secret:tools")
    server.get_by_role("button", name="Add header").click()
    server.get_by_role("textbox", name="Name of header 1").fill("X-Team")
    server.get_by_role("textbox", name="Value of header 1").fill("herd")
    page.get_by_role("checkbox", name="time").check()
    page.get_by_role("checkbox", name="other").check()
    for number, (pattern, rule) in enumerate((("*", "deny"), ("files__*", "ask")), start=1):
        page.get_by_role("button", name="Add rule").click()
        page.get_by_role("textbox", name=f"Tool or pattern of rule {number}").fill(pattern)
        page.get_by_role("combobox", name=f"Value of rule {number}").select_option(rule)
    # The first rule that matches counts.
    page.get_by_role("button", name="Move rule 2 up").click()
    for section in ("Execution", "Schedule"):
        page.get_by_role("heading", name=section).click()
    page.get_by_role("textbox", name="Time limit").fill("1m")
    page.get_by_role("button", name="Add label").click()
    page.get_by_role("textbox", name="Name of label 1").fill("zone")
    page.get_by_role("textbox", name="Value of label 1").fill("north")
    page.get_by_role("checkbox", name=re.compile("^Runs by itself")).check()
    page.get_by_role("textbox", name="Goal").fill("Watch the herd.")
    page.get_by_role("button", name="Create agent").click()
    expect(page.get_by_role("heading", name="Talk to full")).to_be_visible()
    expect(page.get_by_text("next run in")).to_be_visible()
    _, config = scene.call("GET", "/api/agents/full/config")
    (stored,) = config["mcp_servers"]
    assert (stored["url"], stored["token"], stored["headers"]) == (
        "https://tools.example/mcp",
        "secret:tools",
        {"X-Team": "herd"},
    )
    assert list(config["tool_rules"].items()) == [("files__*", "ask"), ("*", "deny")]
    chosen = ("temperature", "mcp_stdio_servers", "agents", "labels", "standalone_job", "permanent_goal")
    assert [config[name] for name in chosen] == [
        0.5,
        [{"name": "time"}],
        ["other"],
        {"zone": "north"},
        True,
        "Watch the herd.",
    ]
    assert config["budgets"] == {"wall": "1m", "tool_calls": None, "tokens": None}
    # What was saved is what the form shows, and nothing of it counts as changed.
    page.get_by_role("tab", name="Configuration").click()
    expect(page.get_by_role("textbox", name="Goal")).to_have_value("Watch the herd.")
    expect(page.get_by_role("button", name="Save changes")).to_be_disabled()


@pytest.mark.behaviour("PAGE-202")
def test_error_is_shown_at_its_field_and_nothing_that_was_written_is_lost(
    page: Page, scene: AgentScene, watched: BrowserErrors
) -> None:
    watched.allow("status of 4(00|09|22)")
    scene.create("taken")
    page.goto(f"{scene.url}/app/agents?add=new")
    page.get_by_role("button", name="Create agent").click()
    name, model = page.get_by_role("textbox", name="Name", exact=True), page.get_by_role("combobox", name="Model")
    expect(page.get_by_text("Give it a name.")).to_be_visible()
    expect(page.get_by_text("Choose the model that answers.")).to_be_visible()
    expect(name).to_be_focused()
    name.fill("taken")
    model.select_option("chatty")
    page.get_by_role("button", name="Create agent").click()
    expect(page.locator(".field", has=name).get_by_role("alert")).to_contain_text("taken")
    name.fill("fresh")
    page.get_by_role("button", name="Add MCP server").click()
    page.get_by_role("textbox", name="Address").fill("http://127.0.0.1/mcp")
    page.get_by_role("button", name="Create agent").click()
    expect(page.get_by_role("group", name="MCP servers").get_by_role("alert")).to_contain_text("private network")
    page.get_by_role("button", name="Remove MCP server 1").click()
    # A section that is folded opens for its error.
    page.get_by_role("heading", name="Execution").click()
    page.get_by_role("textbox", name="Time limit").fill("never")
    page.get_by_role("heading", name="Execution").click()
    page.get_by_role("button", name="Create agent").click()
    limit = page.get_by_role("textbox", name="Time limit")
    expect(limit).to_be_visible()
    expect(page.locator(".field", has=limit).get_by_role("alert")).to_contain_text("not a duration")
    limit.fill("2m")
    page.get_by_role("button", name="Create agent").click()
    expect(page.get_by_role("heading", name="Talk to fresh")).to_be_visible()


@pytest.mark.behaviour("PAGE-202")
def test_page_asks_before_unsaved_changes_are_left_and_not_after_they_are_saved(page: Page, scene: AgentScene) -> None:
    scene.create()
    page.goto(f"{scene.url}/app/agents/helper?tab=configuration")
    description = page.get_by_role("textbox", name="Description")
    description.fill("Counts sheep")
    expect(page.get_by_text("Not saved yet.")).to_be_visible()
    page.get_by_role("tab", name="Runs").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Stay").click()
    expect(description).to_have_value("Counts sheep")
    page.get_by_role("textbox", name="Name", exact=True).fill("counter")
    page.get_by_role("button", name="Save changes").click()
    # Another name renames the agent, and the address follows.
    expect(page).to_have_url(re.compile("/agents/counter"))
    expect(page.get_by_role("heading", name="counter", level=1)).to_be_visible()
    page.get_by_role("tab", name="Runs").click()
    expect(page.get_by_text("This agent has not run yet.")).to_be_visible()
    assert scene.call("GET", "/api/agents/counter")[1]["description"] == "Counts sheep"


@pytest.mark.behaviour("PAGE-202")
def test_change_of_another_user_is_shown_and_an_edited_form_is_kept(page: Page, scene: AgentScene) -> None:
    made = scene.create()
    page.goto(f"{scene.url}/app/agents/helper?tab=configuration")
    description = page.get_by_role("textbox", name="Description")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    assert scene.call("PUT", "/api/agents/helper", made["config"] | {"description": "theirs"})[0] == 200
    expect(description).to_have_value("theirs")
    description.fill("mine")
    assert scene.call("PUT", "/api/agents/helper", made["config"] | {"description": "theirs again"})[0] == 200
    expect(page.get_by_text("The configuration was changed elsewhere.")).to_be_visible()
    expect(description).to_have_value("mine")
    page.get_by_role("button", name="Discard mine and show it").click()
    expect(description).to_have_value("theirs again")


@pytest.mark.behaviour("PAGE-203")
def test_agent_is_paused_resumed_cloned_and_deleted_from_the_list(page: Page, scene: AgentScene) -> None:
    scene.create(description="Counts sheep", standalone_job=True, permanent_goal="Count.")
    page.goto(f"{scene.url}/app/agents")
    line = row(page, "helper")
    expect(line).to_contain_text("Counts sheep")
    expect(line).to_contain_text("chatty")
    expect(line).to_contain_text(re.compile(r"next run in \d+ minutes, not run yet"))
    choose(page, "helper", "Pause")
    expect(line.locator(".pill")).to_have_text("paused")
    expect(line).to_contain_text("no run planned")
    line.get_by_role("link", name="helper").click()
    expect(page.get_by_text("helper is paused and takes no messages.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(message_field(page)).to_be_visible()
    choose(page, "helper", "Clone")
    page.get_by_role("textbox", name="Name of the copy").fill("second")
    page.get_by_role("dialog").get_by_role("button", name="Clone").click()
    expect(page.get_by_role("heading", name="second", level=1)).to_be_visible()
    expect(page.get_by_role("textbox", name="Description")).to_have_value("Counts sheep")
    page.get_by_role("link", name="All agents").click()
    choose(page, "second", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete second").click()
    expect(row(page, "second")).to_have_count(0)
    expect(row(page, "helper")).to_be_visible()
    assert [agent["name"] for agent in scene.call("GET", "/api/agents")[1]["items"]] == ["helper"]


@pytest.mark.behaviour("PAGE-203")
def test_exported_agent_is_imported_again_with_what_is_missing_named(
    page: Page, scene: AgentScene, watched: BrowserErrors, tmp_path: Path
) -> None:
    watched.allow("status of 4(00|09)")
    scene.create(mcp_servers=[{"url": "https://tools.example/mcp", "token": "secret:tools"}], system_prompt="Count.")
    page.goto(f"{scene.url}/app/agents")
    with page.expect_download() as download:
        choose(page, "helper", "Export")
    assert download.value.suggested_filename == "helper.json"
    assert download.value.url == f"{scene.url}/api/agents/helper/export"
    path = tmp_path / "helper.json"
    download.value.save_as(path)
    document = json.loads(path.read_text())
    assert (document["name"], document["system_prompt"]) == ("helper", "Count.")
    path.write_text(json.dumps(document | {"connectors": [{"type": "slack"}]}))
    page.get_by_role("button", name="Import").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("File").set_input_files(path)
    dialog.get_by_role("button", name="Import").click()
    expect(dialog.get_by_role("alert")).to_contain_text("helper")
    dialog.get_by_role("textbox", name="Name").fill("again")
    dialog.get_by_role("button", name="Import").click()
    expect(page.get_by_role("region", name="Missing secrets")).to_contain_text("secret:tools")
    expect(page.get_by_role("region", name="Ignored fields")).to_contain_text("connectors")
    page.get_by_role("link", name="Open its configuration").click()
    expect(page.get_by_role("heading", name="again", level=1)).to_be_visible()
    expect(page.get_by_role("textbox", name="System prompt")).to_have_value("Count.")


def test_file_that_is_no_agent_is_refused_with_the_reason(page: Page, scene: AgentScene, tmp_path: Path) -> None:
    page.goto(f"{scene.url}/app/agents?add=import")
    dialog = page.get_by_role("dialog")
    path = tmp_path / "x.json"
    path.write_text("{")
    dialog.get_by_label("File").set_input_files(path)
    dialog.get_by_role("button", name="Import").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The file is not valid JSON.")
    assert scene.call("GET", "/api/agents")[1]["items"] == []


@pytest.mark.behaviour("PAGE-204")
def test_turn_is_followed_step_by_step_and_is_the_same_after_a_reload(page: Page, scene: AgentScene) -> None:
    scene.create()
    open_chat(page, scene)
    send(page, "Is the herd fed?")
    turn = scene.take()
    article = turns(page)
    turn.deliver(("step", {"step": 1}), ("reasoning", {"text": "I have to "}))
    expect(article.locator(".chat-reasoning")).to_have_text("I have to")
    turn.deliver(("reasoning", {"text": "look."}))
    expect(article.locator(".chat-reasoning")).to_have_text("I have to look.")
    turn.deliver(("tool_call", {"call_id": "c1", "name": "barn", "arguments": {"hay": 3}}))
    tool = article.get_by_role("group", name="Tool barn")
    expect(tool).to_contain_text("running")
    turn.deliver(("tool_result", {"call_id": "c1", "name": "barn", "content": '{"left": 2}'}))
    expect(tool).to_contain_text("done")
    tool.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(tool).to_contain_text('"left": 2')
    turn.write("The herd ", "is **fed**.")
    expect(article.locator(".written")).to_have_text("The herd is fed.")

    # A page that comes later sees the turn from its beginning, each piece once.
    page.reload()
    expect(article).to_have_count(1)
    expect(article.locator(".written")).to_have_text("The herd is fed.")
    expect(article.get_by_role("button", name="Reasoning")).to_be_visible()
    expect(article.get_by_role("group", name="Tool barn")).to_have_count(1)
    turn.deliver(("usage", {"prompt_tokens": 70, "completion_tokens": 8}))
    messages = [
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "barn", "arguments": '{"hay": 3}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"left": 2}'},
        {"role": "assistant", "content": "The herd is **fed**."},
    ]
    turn.end("The herd is **fed**.", messages=messages)
    expect(article).to_contain_text("1 model call, 1 tool call, 78 tokens")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)

    # After the end, the stored messages show the same.
    page.reload()
    expect(article).to_have_count(1)
    expect(article.locator(".chat-question")).to_contain_text("Is the herd fed?")
    expect(article.locator(".written")).to_have_text("The herd is fed.")
    expect(article.get_by_role("group", name="Tool barn")).to_contain_text("done")
    article.get_by_role("link", name="Trace").click()
    expect(page.get_by_role("list", name="Trace")).to_contain_text("barn")


@pytest.mark.behaviour("PAGE-205")
def test_cut_connection_is_shown_and_the_answer_continues_without_gap_and_repetition(
    context: BrowserContext, scene: AgentScene, watched: BrowserErrors
) -> None:
    watched.allow("net::ERR_")
    scene.create()
    sent = scene.chat("hello")
    turn = scene.take()
    turn.write("one ")
    with scene.runs.aside.inside(Relay(scene.url)) as relay:
        scene.run(relay.open())
        come_in(context, relay.url)
        page = context.new_page()
        page.goto(f"{relay.url}/app/agents/helper?thread={sent['thread_id']}")
        expect(turns(page).locator(".written")).to_have_text("one")
        scene.run(relay.close())
        expect(page.get_by_text(LOST)).to_be_visible()
        turn.write("two ", "three ")
        scene.run(relay.open())
        expect(turns(page).locator(".written")).to_have_text("one two three")
        expect(page.get_by_text(LOST)).to_have_count(0)
        # A turn that ends while the page is away is shown with its end.
        scene.run(relay.close())
        expect(page.get_by_text(LOST)).to_be_visible()
        turn.write("four.")
        turn.end("one two three four.")
        scene.run(relay.open())
        expect(turns(page).locator(".written")).to_have_text("one two three four.")
        expect(turns(page).get_by_text("running", exact=True)).to_have_count(0)
        expect(turns(page)).to_have_count(1)
        leave(page)


@pytest.mark.behaviour("PAGE-205")
def test_message_that_got_no_answer_stays_in_the_form_and_is_stored_once(
    page: Page, scene: AgentScene, watched: BrowserErrors
) -> None:
    watched.allow("net::ERR_")
    scene.create()
    open_chat(page, scene)
    # The first message arrives, and its answer is lost on the way back.
    lost: list[int] = []

    def lose_first(route: Route) -> None:
        if not lost:
            lost.append(route.fetch().status)
            route.abort()
        else:
            route.continue_()

    page.route("**/chat", lose_first)
    send(page, "Only once")
    expect(page.get_by_role("alert")).to_contain_text("The server does not respond.")
    expect(message_field(page)).to_have_value("Only once")
    page.get_by_role("button", name="Send").click()
    expect(message_field(page)).to_have_value("")
    expect(turns(page)).to_have_count(1)
    assert lost == [202]
    (thread,) = scene.call("GET", "/api/agents/helper/threads")[1]["threads"]
    assert thread["messages"] == 1


@pytest.mark.behaviour("PAGE-206")
def test_marked_tool_is_approved_in_the_conversation(page: Page, scene: AgentScene) -> None:
    scene.create(tool_rules={"*": "ask"})
    open_chat(page, scene)
    send(page, "Tidy up")
    turn = scene.take()
    turn.deliver(("step", {"step": 1}), ("approval_requested", SHELL))
    form = turns(page).get_by_role("group", name="Approval of shell")
    expect(form).to_contain_text('"command": "rm -r herd"')
    form.get_by_role("button", name="Approve shell").click()
    expect(form).to_have_count(0)
    assert turn.deliver()["decisions"] == {"c1": {"approved": True, "reason": ""}}
    turn.deliver(("approval_resolved", SHELL | {"approved": True}), ("tool_call", SHELL))
    expect(turns(page).get_by_role("group", name="Tool shell")).to_contain_text("running")


@pytest.mark.behaviour("PAGE-207")
def test_running_turn_is_stopped_and_shown_as_cancelled_also_after_a_reload(page: Page, scene: AgentScene) -> None:
    scene.create()
    open_chat(page, scene)
    send(page, "Count for ever")
    turn = scene.take()
    turn.write("One. ")
    expect(turns(page)).to_contain_text("One.")
    page.get_by_role("button", name="Stop").click()
    turn.end_when_stopped()
    expect(turns(page)).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.reload()
    expect(turns(page)).to_contain_text("Count for ever")
    expect(turns(page)).to_contain_text("cancelled")


@pytest.mark.behaviour("PAGE-207")
def test_follow_up_cancels_the_running_turn_where_the_agent_is_set_so(page: Page, scene: AgentScene) -> None:
    scene.create()
    open_chat(page, scene)
    send(page, "First")
    first = scene.take()
    expect(page.get_by_text("A new message cancels the turn that runs.")).to_be_visible()
    send(page, "Second")
    expect(turns(page)).to_have_count(2)
    first.end_when_stopped()
    expect(turns(page).nth(0)).to_contain_text("cancelled")
    second = scene.take()
    second.end("Here I am.")
    expect(turns(page).nth(1)).to_contain_text("Here I am.")


@pytest.mark.behaviour("PAGE-207")
def test_follow_up_waits_for_the_running_turn_and_can_be_cancelled_before_it_begins(
    page: Page, scene: AgentScene
) -> None:
    scene.create(cancel_previous_on_new_message=False)
    open_chat(page, scene)
    send(page, "First")
    first = scene.take()
    expect(page.get_by_text("A new message waits until the turn that runs has ended.")).to_be_visible()
    send(page, "Second")
    expect(turns(page).nth(1)).to_contain_text("queued")
    send(page, "Third")
    expect(turns(page).nth(2)).to_contain_text("queued")
    turns(page).nth(2).get_by_role("button", name="Cancel").click()
    expect(turns(page).nth(2)).to_contain_text("cancelled")
    first.end("One.")
    expect(turns(page).nth(0)).to_contain_text("One.")
    second = scene.take()
    second.end("Two.")
    expect(turns(page).nth(1)).to_contain_text("Two.")
    page.reload()
    expect(turns(page).locator(".chat-question")).to_have_text(["You: First", "You: Second", "You: Third"])
    expect(turns(page).locator(".written")).to_have_text(["One.", "Two."])


@pytest.mark.behaviour("PAGE-207")
def test_turn_without_a_free_place_shows_how_many_wait_before_it(page: Page, scene: AgentScene) -> None:
    scene.create()
    for number in range(4):
        scene.chat(f"Busy {number}")
        scene.take(number)
    scene.chat("Before")
    open_chat(page, scene)
    send(page, "After")
    expect(turns(page)).to_contain_text("Waiting for a free place; 1 before it.")


@pytest.mark.behaviour("PAGE-208")
def test_failed_turn_shows_its_error_and_what_to_do_also_after_a_reload(page: Page, scene: AgentScene) -> None:
    scene.create()
    open_chat(page, scene)
    send(page, "Hello?")
    scene.take().end(state="failed", error_code="model_not_found", error_text="There is no model 'chatty'.")
    problem = turns(page).get_by_role("alert")
    for _ in range(2):
        expect(problem).to_contain_text("There is no model 'chatty'.")
        expect(problem).to_contain_text("Choose another model in the configuration of the agent.")
        page.reload()
    expect(problem).to_be_visible()


@pytest.mark.behaviour("PAGE-208")
def test_message_that_is_refused_shows_the_reason_and_stays_in_the_form(
    page: Page, scene: AgentScene, watched: BrowserErrors
) -> None:
    watched.allow("status of (409|503)")
    scene.create(labels={"zone": "nowhere"})
    open_chat(page, scene)
    send(page, "Hello?")
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("No agent worker has the labels zone=nowhere.")
    expect(message_field(page)).to_have_value("Hello?")
    expect(turns(page)).to_have_count(0)
    expect(threads(page)).to_have_count(0)


@pytest.mark.behaviour("PAGE-209")
def test_threads_are_separate_and_one_that_began_elsewhere_appears(page: Page, scene: AgentScene) -> None:
    scene.create()
    open_chat(page, scene)
    send(page, "About sheep")
    scene.take().end("Sheep are white.")
    expect(turns(page)).to_contain_text("Sheep are white.")
    page.get_by_role("link", name="New thread").click()
    expect(turns(page)).to_have_count(0)
    elsewhere = scene.chat("About goats")
    scene.take().end("Goats climb.")
    expect(threads(page)).to_contain_text([re.compile("About goats"), re.compile("About sheep")])
    threads(page).filter(has_text="About goats").get_by_role("link").click()
    expect(page).to_have_url(re.compile(elsewhere["thread_id"]))
    expect(turns(page)).to_have_count(1)
    expect(turns(page)).to_contain_text("Goats climb.")
    page.get_by_role("button", name="Delete the thread About goats").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the thread").click()
    expect(threads(page)).to_have_count(1)
    expect(page.get_by_role("heading", name="Talk to helper")).to_be_visible()
    threads(page).get_by_role("link").click()
    expect(turns(page)).to_contain_text("Sheep are white.")
    # What was written and not sent is there again when its thread is.
    message_field(page).fill("Not yet")
    page.get_by_role("link", name="New thread").click()
    expect(message_field(page)).to_have_value("")
    threads(page).get_by_role("link").click()
    expect(message_field(page)).to_have_value("Not yet")


@pytest.mark.behaviour("PAGE-210")
def test_inference_key_has_agents_of_its_own_and_uses_shared_ones(
    browser: Browser, scene: AgentScene, watched: BrowserErrors
) -> None:
    secret, _ = scene.runs.new_key("app")
    scene.create("public", shared=True, description="For everybody")
    scene.create("private")
    context = browser.new_context(viewport=PHONE)  # type: ignore[arg-type]
    try:
        context.on("page", watched.watch)
        come_in(context, scene.url, secret)
        page = context.new_page()
        page.goto(f"{scene.url}/app/agents")
        expect(row(page, "public")).to_contain_text("shared")
        expect(row(page, "private")).to_have_count(0)
        expect(page.get_by_role("group", name="Whose agents")).to_have_count(0)
        page.get_by_role("button", name="Actions for public").click()
        expect(page.get_by_role("menuitem")).to_have_text(["Clone", "Export"])
        page.keyboard.press("Escape")
        row(page, "public").get_by_role("link", name="public").click()
        send(page, "Hello", "public")
        scene.take().end("Hello, app.")
        expect(turns(page)).to_contain_text("Hello, app.")
        page.get_by_role("tab", name="Configuration").click()
        expect(page.get_by_text("Only its owner and admins change this agent.")).to_be_visible()
        expect(page.get_by_role("textbox", name="Description")).to_be_disabled()
        page.goto(f"{scene.url}/app/agents?add=new")
        expect(page.get_by_text("Shared with everybody")).to_have_count(0)
        page.get_by_role("textbox", name="Name", exact=True).fill("own")
        page.get_by_role("combobox", name="Model").select_option("chatty")
        page.get_by_role("button", name="Create agent").click()
        expect(page.get_by_role("heading", name="Talk to own")).to_be_visible()
        expect_fits(page)
        leave(page)
    finally:
        context.close()
    assert [one["name"] for one in scene.call("GET", "/api/agents", key=secret)[1]["items"]] == ["own", "public"]


@pytest.mark.behaviour("PAGE-210")
def test_admin_sees_the_agents_of_everybody_and_changes_them_without_their_threads(
    page: Page, scene: AgentScene
) -> None:
    secret, _ = scene.runs.new_key("ann")
    scene.create("anns", key=secret)
    scene.chat("A secret of Ann", name="anns", key=secret)
    page.goto(f"{scene.url}/app/agents")
    expect(page.get_by_text("You have no agents yet.")).to_be_visible()
    page.locator("fieldset.segments label", has_text="Everybody").click()
    expect(row(page, "anns")).to_contain_text("of ann")
    row(page, "anns").get_by_role("link", name="anns").click()
    expect(page.get_by_role("tab")).to_have_text(["Configuration", "Runs"])
    page.get_by_role("textbox", name="Description").fill("Seen by an admin")
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_text("Saved anns.")).to_be_visible()
    assert scene.call("GET", "/api/agents/anns", key=secret)[1]["description"] == "Seen by an admin"
    page.get_by_role("tab", name="Runs").click()
    expect(page.get_by_role("list", name="Runs")).to_contain_text("by ann")
    expect(page.get_by_text("A secret of Ann")).to_have_count(0)


def test_deleted_agent_is_shown_as_such_to_who_talks_to_it(
    page: Page, scene: AgentScene, watched: BrowserErrors
) -> None:
    watched.allow("status of 404")
    scene.create()
    open_chat(page, scene)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    assert scene.call("DELETE", "/api/agents/helper")[0] == 204
    expect(page.get_by_text("This agent was deleted or renamed.")).to_be_visible()


@pytest.mark.behaviour("PAGE-211")
def test_keyboard_alone_sends_a_message_and_opens_a_step(page: Page, scene: AgentScene) -> None:
    scene.create()
    open_chat(page, scene)
    message_field(page).focus()
    page.keyboard.type("Hello")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("there")
    page.keyboard.press("Enter")
    expect(turns(page).locator(".chat-question")).to_have_text("You: Hello\nthere")
    expect(message_field(page)).to_be_focused()
    turn = scene.take()
    turn.deliver(("reasoning", {"text": "A greeting."}), ("content", {"text": "Hi."}))
    head = turns(page).get_by_role("button", name="Reasoning")
    expect(head).to_have_attribute("aria-expanded", "false")
    head.focus()
    page.keyboard.press("Enter")
    expect(turns(page).locator(".chat-reasoning")).to_have_text("A greeting.")


@pytest.mark.behaviour("PAGE-211")
def test_agent_pages_have_no_serious_fault_and_fit_on_a_phone(page: Page, scene: AgentScene) -> None:
    name = "an-agent-with-a-name-that-is-rather-long-for-a-phone"
    scene.create(
        name,
        description="A description without any space:" + "x" * 120,
        shared=True,
        mcp_servers=[{"url": f"https://tools.example/{'m' * 80}", "headers": {"X-Team": "herd"}}],
        tool_rules={"server__tool_with_a_long_name_for_a_phone": "ask"},
        standalone_job=True,
        permanent_goal="Watch.",
    )
    sent = scene.chat("A question without any space: " + "q" * 120, name=name)
    turn = scene.take()
    call = {"call_id": "c0", "name": "server__tool_with_a_long_name_for_a_phone", "arguments": {"path": "x" * 200}}
    turn.deliver(
        ("reasoning", {"text": "r" * 200}),
        ("tool_call", call),
        ("tool_result", {"call_id": "c0", "name": call["name"], "content": "y" * 300, "is_error": True}),
        ("content", {"text": "Text with `" + "z" * 200 + "`"}),
        ("approval_requested", SHELL),
    )
    found: list[str] = []
    places = {
        "": page.get_by_role("list", name="Agents"),
        "?add=new": page.get_by_role("button", name="Create agent"),
        f"/{name}?thread={sent['thread_id']}": page.get_by_role("group", name="Approval of shell"),
        f"/{name}?tab=configuration": page.get_by_role("button", name="Save changes"),
        f"/{name}?tab=runs": page.get_by_role("list", name="Runs"),
    }
    for place, landmark in places.items():
        page.set_viewport_size(DESK)  # type: ignore[arg-type]
        page.goto(f"{scene.url}/app/agents{place}")
        expect(landmark).to_be_visible()
        found += [f"{place}: {fault}" for fault in axe_by_day_and_night(page)]
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        expect_fits(page)
    assert found == []
