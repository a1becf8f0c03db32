"""`corral models`, `rules`, `apply` and `export` against a real frontend, as a person types them."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from corral.cli.main import run
from corral.cli.rules import RoutingChoice
from corral.policy.models.rules import ROUTE_POLICIES
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.tiny_gguf import write_tiny_gguf

Corral = Callable[..., Awaitable[tuple[int, str, str]]]
CorralAt = Callable[[RunningFrontend], Corral]
FLEET = """
models:
  - name: chat
    backend: fake
    options: {slots: 2}
    defaults:
      system: |
        Be brief.
        Be kind.
---
rules:
  - {model: chat, min_replicas: 1}
nodes:
  a: {labels: {zone: b}}
"""


@pytest.fixture
def corral_at(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CorralAt:
    """Commands as a person types them: exit code, standard output, talk."""

    def at(frontend: RunningFrontend) -> Corral:
        for name, value in {"URL": frontend.url, "KEY": ADMIN_KEY, "HOME": str(tmp_path)}.items():
            monkeypatch.setenv(f"CORRAL_{name}", value)
        monkeypatch.chdir(tmp_path)
        return type_in

    async def type_in(*words: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        capsys.readouterr()
        # A command has an event loop of its own.
        code = await asyncio.to_thread(run, list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return at


@pytest.fixture
def corral(frontend: RunningFrontend, corral_at: CorralAt) -> Corral:
    return corral_at(frontend)


@pytest.mark.behaviour("CLI-30")
async def test_fleet_goes_from_a_file_into_the_cluster_and_back(
    frontend: RunningFrontend, corral: Corral, tmp_path: Path
):
    await join_node(frontend, "a")
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    code, out, err = await corral("apply", "-f", "fleet.yaml", "--plan")
    assert (code, "Dry run: nothing was changed." in err) == (0, True), err
    assert "+ model chat" in out
    assert (await corral("models", "list"))[1] == ""
    code, out, err = await corral("apply", "-f", "fleet.yaml")
    assert (code, "Applied: 3 changes, 0 unchanged." in err) == (0, True), err
    code, exported, _ = await corral("export")
    assert code == 0
    assert "system: |" in exported
    code, out, err = await corral("apply", "-f", "-", typed=exported)
    assert (code, out, "the fleet already matches the file" in err) == (0, "", True), err
    assert yaml.safe_load(exported)["rules"] == [{"model": "chat", "min_replicas": 1}]
    code, out, err = await corral("apply", "-f", "-", "--prune", "--allow-empty", typed="rules: []")
    assert (code, "- model chat" in out, "- rule chat" in out) == (0, True, True), err
    file.write_text("models: [")
    code, _, err = await corral("apply", "-f", "fleet.yaml")
    assert (code, "fleet.yaml, line 1: this is not YAML" in err) == (1, True), err
    code, _, err = await corral("apply", "-f", "nowhere.yaml")
    assert (code, "nowhere.yaml cannot be read" in err) == (1, True), err


@pytest.mark.behaviour("CLI-30")
async def test_models_are_made_changed_compared_and_brought_back(corral: Corral, tmp_path: Path):
    (tmp_path / "chat.yaml").write_text("name: chat\nbackend: fake\noptions: {slot: 2}\n")
    code, out, err = await corral("models", "import", "chat.yaml")
    assert (code, "warning: fake has no option 'slot'. Did you mean slots?" in err) == (0, True), err
    code, out, err = await corral("models", "import", "chat.yaml", "--name", "other")
    assert code == 0
    code, out, err = await corral("models", "list")
    assert [line.split()[0] for line in out.splitlines()] == ["MODEL", "chat", "other"]
    assert "idle" in out
    for words, sign in (
        (("pin", "chat"), "+ pinned: true"),
        (("unpin", "chat"), "- pinned: true"),
        (("disable", "chat"), "+ enabled: false"),
        (("enable", "chat"), "- enabled: false"),
    ):
        code, out, err = await corral("models", *words)
        assert (code, out.strip()) == (0, sign), err
    code, out, err = await corral("models", "diff", "chat", "1", "4")
    assert (code, out.strip()) == (0, "+ enabled: false")
    code, out, err = await corral("models", "rollback", "chat", "2")
    assert (code, out.strip(), "revision 6" in err) == (0, "+ pinned: true", True), err
    code, out, err = await corral("models", "revisions", "chat")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["6", "5", "4", "3", "2", "1"]
    code, out, err = await corral("models", "rename", "other", "third")
    assert code == 0
    code, out, err = await corral("models", "show", "third")
    assert (code, "Next: corral models load third" in out) == (0, True)
    code, out, err = await corral("models", "show", "thrid")
    assert (code, "Did you mean third?" in err) == (1, True)
    code, out, err = await corral("models", "export", "chat")
    assert yaml.safe_load(out)["pinned"] is True
    code, out, err = await corral("models", "export")
    assert [one["name"] for one in yaml.safe_load(out)["models"]] == ["chat", "third"]
    code, out, err = await corral("models", "apply", "-f", "-", typed=out)
    assert (code, "the fleet already matches the file" in err) == (0, True), err


@pytest.mark.behaviour("CLI-31")
async def test_edit_opens_the_editor_and_overwrites_no_newer_revision(
    frontend: RunningFrontend, corral: Corral, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    await frontend.call("PUT", "/api/models/config/chat", {"backend": "fake", "threads": 1})
    script = tmp_path / "editor.py"

    def editor_that(does: str) -> None:
        script.write_text(f"import pathlib, sys, urllib.request\np = pathlib.Path(sys.argv[1])\n{does}\n")
        monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")

    editor_that("p.write_text(p.read_text().replace('threads: 1', 'threads: 2'))")
    code, out, err = await corral("models", "edit", "chat")
    assert (code, out.strip()) == (0, "~ threads: 1 -> 2"), err
    editor_that("pass")
    code, out, err = await corral("models", "edit", "chat")
    assert (code, "Nothing was changed" in err) == (0, True)
    editor_that("p.write_text('name: chat\\nbakend: x\\n')")
    code, out, err = await corral("models", "edit", "chat")
    assert (code, "Did you mean backend?" in err) == (1, True), err
    kept = Path(err.strip().rpartition("Your draft is kept in ")[2])
    assert "bakend" in kept.read_text()
    kept.unlink()
    # While the editor is open, somebody else is faster.
    request = (
        f"urllib.request.urlopen(urllib.request.Request({frontend.url + '/api/models/config/chat'!r}, method='PATCH',"
        f" data=b'{{\"threads\": 9}}', headers={{'Authorization': 'Bearer {ADMIN_KEY}',"
        " 'Content-Type': 'application/json'}))"
    )
    editor_that(f"{request}\np.write_text(p.read_text().replace('threads: 2', 'threads: 3'))")
    code, out, err = await corral("models", "edit", "chat")
    assert (code, "revision 3 now" in err) == (1, True), err
    Path(err.strip().rpartition("Your draft is kept in ")[2]).unlink()
    _, found = await frontend.call("GET", "/api/models/config/chat")
    assert found["config"]["threads"] == 9
    editor_that("sys.exit(3)")
    code, out, err = await corral("models", "edit", "chat")
    assert (code, "The editor failed with exit code 3" in err) == (1, True), err
    Path(err.strip().rpartition("Your draft is kept in ")[2]).unlink()


@pytest.mark.behaviour("CLI-30")
async def test_galleries_are_searched_and_an_entry_is_planned(frontend: RunningFrontend, corral: Corral):
    await join_node(frontend, "a", total_ram=8 * 1024**3)
    code, out, _ = await corral("models", "search", "smol")
    assert (code, "smollm2-135m" in out, "Apache-2.0" in out) == (0, True, True)
    code, out, _ = await corral("models", "search", "fake")
    assert "fake-chat *" in out
    assert "fake-chat-large" not in out
    code, out, _ = await corral("models", "variants", "fake-chat")
    assert (code, "(chosen)" in out) == (0, True)
    code, out, err = await corral("models", "install", "smollm2-135m", "--plan", "--set", "options.context_size=512")
    assert (code, "about 93.8 MiB" in out, "options.context_size: 512" in out) == (0, True, True), err
    code, _, err = await corral("models", "install", "smolm2-135m", "--plan")
    assert (code, "Did you mean smollm2-135m?" in err) == (1, True)
    code, out, _ = await corral("models", "galleries")
    assert "comes with Corral" in out
    assert (await corral("models", "list"))[1] == ""


@pytest.mark.behaviour("CLI-30")
async def test_installation_writes_the_model_and_asks_for_its_files(frontend: RunningFrontend, corral: Corral):
    code, out, err = await corral(
        "models", "install", "fake-slow", "--name", "slow", "--detach", "--set", "pinned=true"
    )
    assert code == 0, err
    _, model = await frontend.call("GET", "/api/models/config/slow")
    assert (model["gallery"], model["pinned"]) == ("corral@fake-slow", True)
    _, operation = await frontend.call("GET", f"/api/operations/{out.strip()}")
    assert (operation["kind"], operation["name"]) == ("model_install", "slow")
    code, out, err = await corral("models", "install", "fake-slow", "--set", "pinned")
    assert code == 2


async def test_rules_are_set_listed_shown_and_removed(frontend: RunningFrontend, corral: Corral):
    code, out, err = await corral("rules", "list")
    assert (code, out, "There are no rules" in err) == (0, "", True)
    code, out, err = await corral(
        "rules", "set", "chat", "--selector", "zone=b", "--min", "1", "--max", "3", "--window", "0 8 * * 1-5 10h 2"
    )
    assert (code, "1 to 3" in out, "applies as soon as there is one" in err) == (0, True, True), err
    code, out, _ = await corral("rules", "list")
    assert "no such model yet" in out
    code, out, _ = await corral("rules", "show", "chat", "--json")
    assert json.loads(out)["windows"] == [{"cron": "0 8 * * 1-5", "duration": 36000, "min_replicas": 2}]
    code, out, _ = await corral("rules", "set", "chat", "--everywhere")
    assert "one on each" in out
    code, _, err = await corral("rules", "set", "chat", "--everywhere", "--min", "1")
    assert (code, "one replica on every node" in err) == (1, True)
    code, _, err = await corral("rules", "set", "chat", "--window", "often")
    assert code == 2
    code, _, err = await corral("rules", "remove", "chat")
    assert code == 0
    code, _, err = await corral("rules", "show", "chat")
    assert (code, "There is no rule for 'chat'" in err) == (1, True)


@pytest.mark.behaviour("CLI-35")
async def test_routing_of_a_rule_is_set_kept_by_other_changes_and_taken_back(frontend: RunningFrontend, corral: Corral):
    code, out, err = await corral("rules", "set", "chat", "--routing", "round_robin", "--min", "1")
    assert (code, "round_robin" in out) == (0, True), err
    code, out, _ = await corral("rules", "set", "chat", "--max", "3")
    assert (code, "3" in out, "round_robin" in out) == (0, True, True), out
    code, out, _ = await corral("rules", "set", "chat", "--routing", "prefix_cache")
    assert (code, "has no effect yet" in out) == (0, True)
    code, out, _ = await corral("rules", "set", "chat", "--routing", "least_wait", "--json")
    assert json.loads(out)["route_policy"] == ""
    code, _, err = await corral("rules", "set", "chat", "--routing", "cheapest")
    assert (code, "round_robin" in err) == (2, True)


def test_command_line_offers_every_routing_that_a_rule_takes():
    assert {str(choice) for choice in RoutingChoice} == {word or "least_wait" for word in ROUTE_POLICIES}


@pytest.mark.behaviour("CLI-30")
async def test_file_of_weights_is_sent_and_becomes_a_model(database_url: str, corral_at: CorralAt, tmp_path: Path):
    write_tiny_gguf(tmp_path / "Tuned.gguf")
    async with running_frontend(database_url, library_dir=tmp_path / "library") as frontend:
        corral = corral_at(frontend)
        code, _, err = await corral("models", "import", "Tuned.gguf")
        assert (code, "Uploading Tuned.gguf" in err, "corral models load tuned" in err) == (0, True, True), err
        _, shown, _ = await corral("models", "export", "tuned")
        (file,) = yaml.safe_load(shown)["files"]
        assert (file["path"], file["uri"][:7]) == ("Tuned.gguf", "upload:")
        code, _, err = await corral("models", "import", "gone.gguf")
        assert (code, "There is no file gone.gguf" in err) == (1, True), err
