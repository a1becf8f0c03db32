"""The playground, in a real browser on a real fleet: from nothing to an answer, and what it shows when there is none.

Every test has models of its own names and forgets them, so they may run in any order.
"""

from __future__ import annotations

import json
import re
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.e2e.models.scene import models_of
from tests.e2e.models.system import add_engine, llama_folder
from tests.page.models_here import files_of
from tests.page.support import (
    LONG_MS,
    BackgroundLoop,
    BrowserErrors,
    Fleet,
    axe,
    axe_by_day_and_night,
    come_in,
    expect_fits,
    leave,
    record_texts,
)
from tests.support.models import VOICE, WHISPER
from tests.support.speech import SENTENCE, assert_is_sentence

MODEL = "smollm2-135m"
# While it exists in the folder of the cluster, no llama.cpp starts.
HOLD = "hold"
HOSTILE_ANSWER = """<script>window.harmed = 1</script>

<img src="https://elsewhere.example/a.png" onerror="window.harmed=1"> [click](javascript:window.harmed=1)
![pixel](https://elsewhere.example/b.png)

<iframe src="https://elsewhere.example/c"></iframe>

| one | two |
|-----|-----|
| a   | two |
"""
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def fleet(built_page: None, aside: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One frontend and two workers, which have real engines: a real model needs no more than its own files."""
    folder = tmp_path_factory.mktemp("playground")
    system = llama_folder(folder / "system", hold=folder / HOLD)
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(system)}
    for name in ("piper", "faster-whisper"):
        add_engine(folder / "system", name)
    with aside.inside(models_of(folder, "worker-1", "worker-2", frontends=1, settings=settings)) as models:
        yield Fleet(aside, models)


def open_page(page: Page, fleet: Fleet, search: str = "") -> None:
    page.goto(f"{fleet.url()}/app/playground{search}")
    expect(page.get_by_role("heading", name="Playground", level=1)).to_be_visible()


def put(fleet: Fleet, name: str, **options: Any) -> None:
    fleet.run(fleet.models.put(name, options=options))


def forget(page: Page, fleet: Fleet, *names: str) -> None:
    leave(page)
    fleet.run(fleet.models.forget(*names))


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def choose(page: Page, model: str) -> None:
    page.get_by_role("button", name=re.compile("^Model: ")).click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile(rf"^{model}\b")).click()
    expect(page).to_have_url(re.compile(f"model={model}"))


def turns(page: Page) -> Locator:
    return page.get_by_role("region", name="Conversation").get_by_role("article")


def send(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.keyboard.press("Enter")


def test_question_that_never_reached_the_frontend_is_retried_by_a_button_and_by_nothing_else(
    page: Page, context: BrowserContext, fleet: Fleet, watched: BrowserErrors
) -> None:
    watched.allow("net::ERR_")
    put(fleet, "cut-off")
    open_page(page, fleet, "?model=cut-off")
    context.set_offline(True)
    send(page, "Are you there?")
    expect(turns(page).last).to_contain_text("The server does not respond.")
    # Nothing asks again by itself, so nothing may say so.
    expect(turns(page).last).not_to_contain_text("by itself")
    expect(turns(page).last).to_contain_text("Retry when the connection is back.")
    context.set_offline(False)
    turns(page).last.get_by_role("button", name=re.compile("retry", re.IGNORECASE)).click()
    expect(turns(page).last).to_contain_text("answered by worker-", timeout=LONG_MS)
    forget(page, fleet, "cut-off")


@pytest.mark.behaviour("PAGE-115")
@pytest.mark.timeout(600)
def test_empty_cluster_answers_the_example_as_it_stands(page: Page, fleet: Fleet) -> None:
    open_page(page, fleet)
    expect(page.get_by_role("heading", name=f"Chat with {MODEL}")).to_be_visible()
    expect(page.get_by_label("Your message")).to_have_value("Why is the sky blue?")
    bars = record_texts(page, "article [role=progressbar]")
    steps = record_texts(page, "article [role=status]")
    hold = fleet.models.cluster.folder / HOLD
    hold.touch()
    try:
        button(page, "Send").click()
        expect(turns(page)).to_contain_text("Why is the sky blue?")
        steps.expect("Download|Fetching|queued|turn")
        bars.expect("Download|Fetching|queued|turn")
        _skip_if_it_cannot_be_fetched(fleet)
        expect(turns(page).get_by_role("status")).to_have_text(re.compile(f"Loading {MODEL}"), timeout=LONG_MS)
        hold.unlink()
        expect(turns(page).get_by_text(re.compile(r"answered by worker-\d · first token after"))).to_be_visible(
            timeout=LONG_MS
        )
        expect(button(page, "Send")).to_be_visible(timeout=LONG_MS)
        expect(page.get_by_text(re.compile(r"^loaded on worker-\d$"))).to_be_visible()
        expect(turns(page)).to_contain_text(re.compile(r"\d+ tokens"))
    finally:
        hold.unlink(missing_ok=True)
        leave(page)
        _forget_all_about_it(fleet)


def _skip_if_it_cannot_be_fetched(fleet: Fleet) -> None:
    (fetching,) = [one for one in _operations(fleet) if one["kind"] == "model_install"]
    ended = fleet.run(fleet.models.becomes(fetching["id"], "completed", "failed"))
    if ended["state"] == "failed":
        pytest.skip(f"the model cannot be fetched here: {ended['error']}")


def _operations(fleet: Fleet) -> list[Any]:
    live = fleet.get("/api/operations")["operations"]
    return [one for one in live + fleet.get("/api/operations/history")["operations"] if one["name"] == MODEL]


def _forget_all_about_it(fleet: Fleet) -> None:
    for one in _operations(fleet):
        fleet.call("POST", f"/api/operations/{one['id']}/cancel")
        fleet.call("POST", f"/api/operations/{one['id']}/dismiss")
    fleet.run(fleet.models.forget(MODEL))


def test_answer_can_be_stopped_continued_and_restarted(page: Page, fleet: Fleet) -> None:
    put(fleet, "talker", stall_after="6")
    open_page(page, fleet, "?model=talker")
    expect(page.get_by_text("Not loaded; loads on your first message.")).to_be_visible()
    send(page, "Tell me a long story.")
    expect(turns(page).get_by_text(re.compile(r"\b6 tokens"))).to_be_visible(timeout=LONG_MS)
    button(page, "Stop").click()
    expect(turns(page).get_by_text(re.compile("stopped"))).to_be_visible()
    shown_text = turns(page).inner_text()
    # The engine has heard of it too.
    fleet.run(fleet.models.look(lambda: _is_still(fleet)))
    page.reload()
    expect(turns(page)).to_have_count(1)
    # The example is for whoever begins, not for a conversation that goes on.
    expect(page.get_by_label("Your message")).to_have_value("")
    expect(turns(page)).to_have_text(shown_text, use_inner_text=True)

    page.get_by_role("spinbutton", name="Max tokens").fill("5")
    send(page, "Shorter, please.")
    expect(turns(page)).to_have_count(2)
    expect(turns(page).last.get_by_text("stopped at the token limit")).to_be_visible()
    with page.expect_response(re.compile("/v1/chat/completions")):
        button(page, "Regenerate").click()
    expect(turns(page).last.get_by_text("stopped at the token limit")).to_be_visible()
    expect(turns(page)).to_have_count(2)
    button(page, "New chat").click()
    expect(turns(page)).to_have_count(0)
    expect(page.get_by_role("heading", name="Chat with talker")).to_be_visible()
    forget(page, fleet, "talker")


async def _is_still(fleet: Fleet) -> bool:
    _, live = await fleet.models.call("GET", "/api/live")
    return not live["requests_open"]


def test_model_that_cannot_be_loaded_shows_the_reason_and_can_be_retried(
    page: Page, fleet: Fleet, watched: BrowserErrors
) -> None:
    watched.allow(r"status of 5\d\d .*/v1/chat/completions")
    put(fleet, "stubborn", refuse_start="true")
    open_page(page, fleet, "?model=stubborn")
    send(page, "Are you there?")
    problem = turns(page).get_by_role("alert")
    expect(problem).to_contain_text("stubborn", timeout=LONG_MS)
    expect(problem).to_contain_text("the engine is configured not to start")
    for one in fleet.get("/api/operations")["operations"]:
        fleet.call("POST", f"/api/operations/{one['id']}/dismiss")
    status, answer = fleet.call("PATCH", "/api/models/config/stubborn", {"options": {"refuse_start": "false"}})
    assert status == 200, answer
    button(page, "Retry").click()
    expect(turns(page).get_by_text(re.compile(r"answered by worker-\d"))).to_be_visible(timeout=LONG_MS)
    expect(problem).to_have_count(0)
    forget(page, fleet, "stubborn")


@pytest.mark.behaviour("PAGE-118")
def test_inference_key_chats_in_the_playground_and_with_the_shown_command(
    context: BrowserContext, fleet: Fleet
) -> None:
    put(fleet, "plain")
    key = fleet.new_key("infer")
    come_in(context, fleet.url(), key)
    page = context.new_page()
    open_page(page, fleet, "?model=plain")
    places = page.get_by_role("navigation").get_by_role("link")
    expect(places).to_have_text(["Playground", "Agents", "Tasks and batches", "Runs", "Usage", "Secrets"])
    page.get_by_role("spinbutton", name="Max tokens").fill("8")
    send(page, "It's a quote: 'so'. Who goes there?")
    expect(turns(page).get_by_text(re.compile(r"answered by worker-\d"))).to_be_visible(timeout=LONG_MS)

    page.get_by_role("heading", name="Code").click()
    shown = page.locator("code").last
    expect(shown).to_contain_text("Who goes there?")
    command = shown.inner_text()
    answered = subprocess.run(
        ["bash", "-c", f"{command} --silent --show-error"],
        env={"CORRAL_API_KEY": key, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(answered.stdout)["choices"][0]["message"]["content"]
    forget(page, fleet, "plain")


def test_markup_and_images_in_an_answer_load_and_run_nothing(page: Page, fleet: Fleet) -> None:
    put(fleet, "hostile")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    open_page(page, fleet, "?model=hostile")
    # The page keeps conversations in the tab: this one has come from a model that means harm.
    turn = json.dumps([{"question": "Who are you?", "answer": HOSTILE_ANSWER, "facts": None}])
    page.evaluate("turns => sessionStorage.setItem('corral.chat.hostile', turns)", turn)
    page.reload()
    answer = turns(page)
    expect(answer.get_by_role("cell", name="two")).to_be_visible()
    expect(answer).to_contain_text("<script>window.harmed = 1</script>")
    expect(answer).to_contain_text("[click](javascript:window.harmed=1)")
    expect(answer.locator("img, script, iframe")).to_have_count(0)
    expect(answer.get_by_role("link")).to_have_count(1)
    expect(answer.get_by_role("link", name="pixel")).to_have_attribute("rel", "noopener noreferrer")
    assert axe(page) == []
    assert page.evaluate("window.harmed") is None
    assert [url for url in requested if "elsewhere.example" in url] == []
    forget(page, fleet, "hostile")


def test_texts_become_vectors(page: Page, fleet: Fleet) -> None:
    put(fleet, "vectors")
    open_page(page, fleet, "?mode=embeddings&model=vectors")
    page.get_by_label("Texts, one per line").fill("a mare\na mare\nan index")
    button(page, "Embed").click()
    table = page.get_by_role("region", name="Similarity")
    expect(table.get_by_role("cell")).to_have_count(9, timeout=LONG_MS)
    expect(table.get_by_role("cell", name="1.00")).to_have_count(5)
    assert axe(page) == []
    forget(page, fleet, "vectors")


def test_spoken_text_can_be_played_kept_and_transcribed_again(page: Page, fleet: Fleet, tmp_path: Path) -> None:
    at = fleet.models.files
    fleet.run(fleet.models.put("joe", backend="piper", serves=["speech"], files=files_of(VOICE, at)))
    listens: dict[str, Any] = {"options": {"compute_type": "int8", "beam_size": "1"}, "serves": ["transcriptions"]}
    fleet.run(fleet.models.put("ears", backend="faster-whisper", files=files_of(WHISPER, at), **listens))
    open_page(page, fleet, "?mode=speech")
    choose(page, "joe")
    page.get_by_label("Text").fill(SENTENCE)
    button(page, "Speak").click()
    # The browser has taken the sound for a sound, under the page's strict policy.
    player = page.get_by_label("Spoken text")
    expect(player).to_have_js_property("readyState", 4, timeout=LONG_MS)
    with page.expect_download() as started:
        page.get_by_role("link", name="Save recording").click()
    recording = tmp_path / started.value.suggested_filename
    started.value.save_as(recording)
    with wave.open(str(recording)) as sound:
        lasts_s = sound.getnframes() / sound.getframerate()
    assert lasts_s > 1
    assert player.evaluate("sound => sound.duration") == pytest.approx(lasts_s, abs=0.1)
    expect(page.get_by_text(re.compile(r"^loaded on worker-\d$"))).to_be_visible()

    page.get_by_text("Transcription", exact=True).click()
    choose(page, "ears")
    button(page, "Record").click()
    expect(page.get_by_role("alert")).to_contain_text("The microphone cannot be used. Choose a file instead.")
    page.get_by_label("Audio file").set_input_files(recording)
    written = page.locator("code").last
    expect(written).to_be_visible(timeout=LONG_MS)
    assert_is_sentence(written.inner_text())
    expect(page.get_by_role("alert")).to_have_count(0)
    forget(page, fleet, "joe", "ears")


def test_playground_is_accessible(page: Page, fleet: Fleet) -> None:
    put(fleet, "usable")
    fleet.run(fleet.models.loaded("usable", "worker-1"))
    open_page(page, fleet, "?model=usable")
    send(page, "A `word` and a very-long-word-that-does-not-want-to-be-broken-anywhere-at-all-on-a-phone.")
    expect(turns(page).get_by_text(re.compile("answered by"))).to_be_visible(timeout=LONG_MS)
    for path in ("?model=usable", "?mode=embeddings&model=usable", "?mode=speech", "?mode=transcription"):
        open_page(page, fleet, path)
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        assert axe_by_day_and_night(page) == [], path
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        expect_fits(page)
        page.set_viewport_size({"width": 1280, "height": 800})
    forget(page, fleet, "usable")
