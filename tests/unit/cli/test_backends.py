"""`corral backends …` as a person or a script sees it."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
from contextlib import suppress
from typing import Any

import pytest

from tests.support.children import start_child
from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import (
    KEY,
    NOON,
    OPERATION,
    a_node,
    a_target,
    admitted,
    an_event,
    an_operation,
    hello,
    json_answer,
    progress,
    refusal,
)

INSTALL = "POST /api/backends/install/engine"
READ = f"GET /api/operations/{OPERATION}"
DONE = {"state": "completed", "rev": 9, "progress": 100.0, "message": "Completed on 1 node"}


def a_plan(**changes: Any) -> dict[str, Any]:
    node = {
        "node_id": "1", "node_name": "gpu-a", "node_status": "healthy", "backend": "cuda-engine", "version": "2.0.0",
        "desired": "present", "fetch_bytes": 3 * 1024**2,
    }  # fmt: skip
    plan: dict[str, Any] = {
        "plan": True, "kind": "backend_install", "backend": "engine", "nodes": [node], "fetch_bytes": 3 * 1024**2,
        "skipped": [{"node_id": "2", "node_name": "cpu-b", "reason": "Node cpu-b is waiting for approval."}],
    }  # fmt: skip
    return plan | changes


def installed(**changes: Any) -> dict[str, Any]:
    place = {
        "node_id": "1", "node_name": "gpu-a", "node_status": "healthy", "version": "1.0", "size_bytes": 2048,
        "installed_at": NOON.isoformat(), "has_upgrade": True, "upgrade_to": "2.0",
    }  # fmt: skip
    backend: dict[str, Any] = {
        "Name": "cuda-engine", "IsSystem": False, "version": "1.0", "available_version": "2.0", "has_upgrade": True,
        "Nodes": [place, place | {"node_id": "2", "node_name": "gpu-b", "version": "0.9", "drifts": True}],
    }  # fmt: skip
    return backend | changes


def test_backend_list_shows_versions_drift_upgrades_and_pending_changes(corral, frontend):
    frontend.on("GET /backends", json_answer([installed()]))
    pending = {
        "node_id": "3", "node_name": "gpu-c", "backend": "cuda-engine", "desired": "present", "version": "2.0",
        "state": "open", "generation": 4, "operation_id": OPERATION, "attempts": 2, "created_at": NOON.isoformat(),
    }  # fmt: skip
    dead = pending | {"node_name": "gpu-d", "state": "dead", "error": "disk full"}
    frontend.on("GET /api/backend-intents", json_answer([pending, dead]))
    outcome = corral("backends", "list")
    assert [line.split()[0] for line in outcome.out.splitlines()] == ["BACKEND", *["cuda-engine"] * 4]
    assert "1.0" in outcome.out.splitlines()[1]
    assert "drifts" in outcome.out.splitlines()[2]
    assert "pending: install, 2 failures" in outcome.out.splitlines()[3]
    assert "failed: install (disk full)" in outcome.out.splitlines()[4]
    assert "corral backends upgrade cuda-engine" in outcome.err
    only = corral("backends", "list", "--node", "gpu-c")
    assert len(only.out.splitlines()) == 2
    data = json.loads(corral("backends", "list", "--json").out)
    assert data["installed"][0]["nodes"][1]["drifts"] is True
    assert len(data["owed"]) == 2


def test_node_that_is_ahead_has_no_upgrade_and_a_long_reason_is_cut(corral, frontend):
    ahead = installed()
    ahead["Nodes"][1] |= {"version": "2.0", "has_upgrade": False, "upgrade_to": ""}
    ahead["upgrade_summary"] = "The newest version is 2.0. gpu-a has 1.0."
    frontend.on("GET /backends", json_answer([ahead]))
    dead = {
        "node_id": "3", "node_name": "gpu-c", "backend": "cuda-engine", "desired": "present", "version": "2.0",
        "state": "dead", "generation": 4, "operation_id": OPERATION, "attempts": 10, "created_at": NOON.isoformat(),
        "error": "It did not respond. " * 30,
    }  # fmt: skip
    frontend.on("GET /api/backend-intents", json_answer([dead]))
    outcome = corral("backends", "list")
    assert "cuda-engine: The newest version is 2.0. gpu-a has 1.0." in outcome.err
    lines = outcome.out.splitlines()
    columns = [line.split() for line in lines[1:3]]
    assert [(row[3], row[5]) for row in columns] == [("1.0", "2.0"), ("2.0", "-")]
    assert len(lines[3]) < 200


def test_empty_list_says_what_to_do(corral, frontend):
    frontend.on("GET /backends", json_answer([]))
    frontend.on("GET /api/backend-intents", json_answer([]))
    outcome = corral("backends", "list")
    assert (outcome.code, outcome.out) == (0, "")
    assert "corral backends search" in outcome.err


def _entry(name: str, **changes: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": f"corral@{name}", "name": name, "gallery": "corral", "isMeta": False, "installed": False,
        "versions": ["2.0"], "version": "2.0", "description": "An engine. " * 20, "license": "MIT", "runsOn": [],
    }  # fmt: skip
    return entry | changes


def _page(*entries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    page: dict[str, Any] = {
        "backends": list(entries), "processingBackends": {}, "taskTypes": {}, "availableBackends": len(entries),
        "installedBackends": 0, "systemCapability": "", "allTags": [], "currentPage": 1, "totalPages": 1,
    }  # fmt: skip
    return page | changes


def test_backend_search_hides_single_builds_unless_all_are_requested_and_reads_every_page(corral, frontend):
    meta = _entry("engine", isMeta=True, capabilities={"nvidia": "cuda-engine"}, runsOn=["nvidia"])
    build = _entry("cuda-engine", metaBackendFor="engine")
    pages = (json_answer(_page(meta, totalPages=2)), json_answer(_page(build, totalPages=2)))
    frontend.on("GET /api/backends", *pages)
    outcome = corral("backends", "search", "eng")
    assert [line.split()[0] for line in outcome.out.splitlines()] == ["NAME", "engine"]
    assert [seen.query["page"] for seen in frontend.seen] == ["1", "2"]
    assert frontend.seen[0].query["term"] == "eng"
    assert max(len(line) for line in outcome.out.splitlines()) < 130
    frontend.on("GET /api/backends", *pages)
    everything = corral("backends", "search", "--all")
    assert [line.split()[0] for line in everything.out.splitlines()] == ["NAME", "engine", "cuda-engine"]
    frontend.on("GET /api/backends", json_answer(_page(meta, build)))
    info = corral("backends", "info", "corral@engine").out
    assert "nvidia     cuda-engine   2.0" in info
    assert "Next: corral backends install engine" in info
    assert corral("backends", "info", "nothing").code == 1


@pytest.mark.behaviour("CLI-17")
def test_plan_says_has_it_for_a_node_that_has_the_backend(corral, frontend):
    plan = a_plan(fetch_bytes=0)
    plan["nodes"][0] |= {"has_it": True, "previous_version": "2.0.0", "fetch_bytes": 0}
    frontend.on(INSTALL, json_answer(plan))
    outcome = corral("backends", "install", "engine", "--plan")
    assert "gpu-a   healthy   installed   cuda-engine   2.0.0     2.0.0   0 B" in outcome.out
    assert "nothing would change" in outcome.err


@pytest.mark.behaviour("CLI-17")
def test_install_plan_is_printed_and_nothing_is_changed(corral, frontend):
    frontend.on(INSTALL, json_answer(a_plan()))
    outcome = corral(
        "backends", "install", "engine", "--plan", "--node", "gpu-a", "--node", "gpu-b", "--version", "2.0.0"
    )
    assert outcome.code == 0
    assert frontend.seen[0].query == {"plan": "true"}
    assert bodies(frontend, INSTALL)[0]["nodes"] == ["gpu-a", "gpu-b"]
    assert "gpu-a   healthy   install   cuda-engine   2.0.0     -     3 MiB" in outcome.out
    assert "cpu-b     Node cpu-b is waiting for approval." in outcome.out
    assert "Dry run: nothing was changed." in outcome.err
    assert json.loads(corral("backends", "plan", "engine", "--json").out)["fetch_bytes"] == 3 * 1024**2


@pytest.mark.behaviour("CLI-17")
def test_detached_the_id_is_all_that_is_printed(corral, frontend):
    frontend.on(INSTALL, json_answer(admitted()))
    outcome = corral("backends", "install", "engine", "--detach", "--after")
    assert (outcome.code, outcome.out) == (0, f"{OPERATION}\n")
    assert frontend.seen[0].query == {"after": "true"}
    assert "Idempotency-Key" in frontend.seen[0].headers
    assert json.loads(corral("backends", "install", "engine", "--detach", "--json").out)["jobID"] == OPERATION


def test_install_options_are_sent_to_the_frontend(corral, frontend):
    frontend.on(INSTALL, json_answer(admitted()))
    words = ["--waves", "1,5", "--stop-on-failure", "--rollback", "--deadline", "1h", "--force", "--ignore-capability"]
    corral("backends", "install", "engine", "-d", *words)
    assert bodies(frontend, INSTALL) == [
        {
            "nodes": None, "version": "", "ignore_capability": True, "force": True,
            "strategy": {"waves": [1, 5], "stop_on_failure": True, "rollback": True, "deadline": "1h"},
        }
    ]  # fmt: skip
    external = "POST /api/backends/install-external"
    frontend.on(external, json_answer(admitted()))
    digest = "a" * 64
    corral("backends", "install", "-d", "--uri", "https://example.com/x.whl", "--name", "x", "--sha256", digest)
    sent = bodies(frontend, external)[0]
    assert (sent["uri"], sent["name"], sent["sha256"]) == ("https://example.com/x.whl", "x", digest)


@pytest.mark.behaviour("CLI-3")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["install"], 2),
        (["install", "engine", "--alias", "x"], 2),
        (["install", "x", "--uri", "/opt/x", "--name", "y"], 2),
        (["install", "engine", "--waves", "one"], 2),
        (["install", "engine", "--deadline", "soon"], 1),
        (["install", "engine", "--waves", "0"], 1),
        (["upgrade", "--version", "2"], 2),
        (["upgrade", "--node", "a"], 2),
        (["stop", "--node", "a"], 2),
        (["start", "engine", "--node", "a", "--option", "x"], 2),
        (["processes"], 2),
    ],
)
def test_invalid_install_options_are_refused_before_a_request(corral, frontend, words, code):
    outcome = corral("backends", *words)
    assert outcome.code == code
    assert outcome.err.startswith("error: ")
    assert "pattern" not in outcome.err
    assert frontend.seen == []


def test_refused_install_lists_the_reason_of_each_node(corral, frontend):
    async def refuse(request: Any) -> Any:
        from aiohttp import web  # noqa: PLC0415

        details = {"skipped": [{"node": "gpu-a", "reason": "engine has no build for it."}]}
        error = {"code": "no_eligible_nodes", "message": "No node can install engine.", "details": details}
        return web.json_response({"error": error}, status=409)

    frontend.on(INSTALL, refuse)
    outcome = corral("backends", "install", "engine")
    assert outcome.code == 1
    assert outcome.err.splitlines()[0] == "gpu-a: engine has no build for it."
    assert "error: No node can install engine." in outcome.err


def _working(percentage: float, **changes: Any) -> dict[str, Any]:
    return a_target(state="working", status="downloading", phase="downloading", percentage=percentage, **changes)


def _script(frontend: Any, *ends: dict[str, Any]) -> None:
    """An operation that is started, followed over one step of progress, and ends so."""
    frontend.on(INSTALL, json_answer(admitted()))
    frontend.on(READ, json_answer(an_operation()), json_answer(an_operation()), *(json_answer(end) for end in ends))
    slim = {key: value for key, value in _working(40.0, current=400, total=1000).items() if key != "build"}
    frontend.streams = [
        hello() + progress(2, progress=40.0, nodes=[slim]) + an_event(2, "operation.changed", key=OPERATION)
    ]


@pytest.mark.behaviour("CLI-14")
@pytest.mark.behaviour("CLI-15")
def test_change_is_followed_by_plain_lines_to_its_end_in_a_pipe(corral, frontend):
    done = a_target(state="success", status="success", percentage=100.0, previous_version="1.0")
    _script(frontend, an_operation(**DONE, nodes=[done]))
    outcome = corral("backends", "install", "engine")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.splitlines() == [
        "Installing engine is under way.",
        "gpu-a: queued",
        "gpu-a: completed cuda-engine 2.0.0 (was 1.0)",
        "install engine: completed.",
    ]


@pytest.mark.behaviour("CLI-14")
def test_json_output_has_a_line_per_step_with_the_nodes_that_moved(corral, frontend):
    done = a_target(state="success", status="success", percentage=100.0)
    _script(frontend, an_operation(**DONE, nodes=[done]))
    outcome = corral("backends", "install", "engine", "--json")
    steps = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(step["state"], step["progress"]) for step in steps] == [
        ("running", 0.0),
        ("running", 40.0),
        ("completed", 100.0),
    ]
    assert steps[1]["nodes"][0]["current"] == 400
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.behaviour("CLI-15")
@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ({"state": "completed_with_pending", "rev": 9}, 0, "changes pending on gpu-a, applied when it returns"),
        ({"state": "failed", "rev": 9, "error": "gpu-a: disk full"}, 1, "corral operations retry 6c48d021"),
        ({"state": "cancelled", "rev": 9, "message": "Cancelled by admin."}, 1, "cancelled. Cancelled by admin."),
        ({"state": "paused", "rev": 9}, 1, "corral operations resume 6c48d021"),
        ({"state": "superseded", "rev": 9}, 1, "superseded"),
    ],
)
def test_exit_code_and_the_last_sentence_tell_how_it_ended(corral, frontend, end, code, words):
    _script(frontend, an_operation(**end))
    outcome = corral("backends", "install", "engine")
    assert outcome.code == code
    assert words in outcome.err


def test_removal_asks_on_a_terminal_with_the_nodes_it_would_touch(corral, frontend):
    route = "POST /api/backends/delete/engine"
    frontend.on(route, json_answer(a_plan(kind="backend_delete")), json_answer(admitted()))
    outcome = corral("backends", "remove", "engine", "-d", typed="n\n", is_terminal=True)
    assert (outcome.code, outcome.out) == (1, "")
    assert "Remove engine from gpu-a?" in outcome.err
    assert len(frontend.seen) == 1
    assert corral("backends", "remove", "engine", "-d", "--yes", is_terminal=True).out == f"{OPERATION}\n"


def test_upgrade_all_upgrades_every_backend(corral, frontend):
    route = "POST /api/backends/upgrades/apply"
    refused = [{"backend": "b", "code": "x", "message": "b is in use."}]
    frontend.on(route, json_answer({"operations": [admitted()], "refused": refused}))
    outcome = corral("backends", "upgrade", "--detach")
    assert (outcome.code, outcome.out) == (1, f"{OPERATION}\n")
    assert "b: b is in use." in outcome.err
    frontend.on(route, json_answer({"operations": [], "refused": []}))
    assert "All backends are up to date" in corral("backends", "upgrade").err


def test_engines_of_a_node_are_shown_started_and_stopped(corral, frontend):
    process = {
        "key": "m#0", "model": "m", "replica": 0, "backend": "fake", "version": "1", "address": "127.0.0.1:5",
        "pid": 7, "state": "ready", "ram_bytes": 2**30, "cpu_percent": 149.6,
    }  # fmt: skip
    frontend.on("GET /api/nodes/gpu-a/processes", json_answer([process]), json_answer([]))
    shown = corral("backends", "processes", "--node", "gpu-a").out
    assert "m#0       fake      1         ready   127.0.0.1:5   7     0" in shown
    assert shown.splitlines()[-1].split()[-4:] == ["1", "GiB", "150", "%"]
    assert "No engine runs" in corral("backends", "processes", "--node", "gpu-a").err
    start = "POST /api/nodes/gpu-a/backends/start"
    frontend.on(
        start, json_answer({"jobID": "j", "key": "m#0", "state": "running", "message": "m#0 is starting."}, 202)
    )
    started = corral("backends", "start", "fake", "--node", "gpu-a", "--model", "m", "--option", "a=b=c")
    assert started.out == "m#0\n"
    assert "corral backends logs 'm#0' --node gpu-a" in started.err
    assert bodies(frontend, start)[0]["options"] == {"a": "b=c"}
    stop = "POST /api/nodes/gpu-a/backends/stop"
    frontend.on(stop, json_answer({"stopped": ["m#0"], "survivors": ["x#1"], "message": "1 stopped."}))
    outcome = corral("backends", "stop", "m#0", "--node", "gpu-a")
    assert (outcome.code, outcome.out) == (1, "m#0\n")
    assert "Still running: x#1" in outcome.err
    corral("backends", "stop", "fake", "--node", "gpu-a")
    assert [(body["key"], body["backend"]) for body in bodies(frontend, stop)] == [("m#0", ""), ("", "fake")]


def test_engine_output_cannot_control_the_terminal(corral, frontend):
    lines = [{"number": 1, "at": "noon", "stream": "stderr", "text": "ready\x1b[2J"}]
    log = {"key": "m#0", "lines": lines, "first": 1, "next": 1}
    frontend.on("GET /api/nodes/gpu-a/backend-logs/m#0", json_answer(log))
    frontend.on("GET /api/nodes/gpu-a/backend-logs", json_answer(["m#0"]))
    assert (
        corral("backends", "logs", "m#0", "--node", "gpu-a").out == "noon  stderr  ready\N{REPLACEMENT CHARACTER}[2J\n"
    )
    assert corral("backends", "logs", "--node", "gpu-a").out == "m#0\n"
    assert json.loads(corral("backends", "logs", "m#0", "--node", "gpu-a", "--json").out)["next"] == 1


@pytest.mark.behaviour("CLI-14")
@pytest.mark.behaviour("CLI-15")
def test_install_shows_bars_on_a_terminal_and_ctrl_c_ends_only_the_watching(frontend, tmp_path):
    frontend.on(INSTALL, json_answer(admitted()))
    moving = _working(40.0, current=400 * 1024, total=1000 * 1024)
    done = a_target("cpu-b", state="success", status="success", percentage=100.0)
    frontend.on(READ, json_answer(an_operation(nodes=[moving, done])))
    frontend.streams = [hello()]
    frontend.holds_last_stream = True
    ours, theirs = pty.openpty()
    environment = {
        "HOME": str(tmp_path),
        "CORRAL_URL": frontend.url,
        "CORRAL_KEY": KEY,
        "NO_COLOR": "1",
        "COLUMNS": "150",
        "TERM": "xterm",
    }
    command = [sys.executable, "-m", "corral", "backends", "install", "engine"]
    with start_child(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = ""
        while "40%" not in seen or "cpu-b: completed" not in seen:
            seen += os.read(ours, 4096).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        with suppress(OSError):
            while part := os.read(ours, 4096):
                seen += part.decode(errors="replace")
    os.close(ours)
    assert process.returncode == 130
    assert "downloading" in seen
    assert "400 KiB/1000 KiB" in seen
    assert (
        "The operation goes on. Watch it with: corral operations watch 6c48d021; stop it with: corral operations cancel"
        in seen
    )
    assert "Stopped." not in seen
    assert bodies(frontend, f"POST /api/operations/{OPERATION}/cancel") == []


def test_unknown_backend_shows_the_error_of_the_frontend(corral, frontend):
    frontend.on(INSTALL, refusal(404, "backend_not_found", "There is no backend 'engine'.", "Did you mean engin?"))
    outcome = corral("backends", "install", "engine")
    assert outcome.err == "error: There is no backend 'engine'.\n\nhint: Did you mean engin?\n"


def an_intent(**changes: Any) -> dict[str, Any]:
    intent: dict[str, Any] = {
        "node_id": "1", "node_name": "gpu-a", "backend": "cuda-engine", "desired": "present", "version": "2.0",
        "state": "open", "generation": 4, "operation_id": OPERATION, "attempts": 3, "created_at": NOON.isoformat(),
        "next_retry_at": "2999-01-01T00:00:00Z", "error": "files.example returned 503.",
    }  # fmt: skip
    return intent | changes


PENDING_SPELLINGS = pytest.mark.parametrize(
    ("listing", "retry", "discard"),
    [
        pytest.param(("pending",), ("pending", "retry"), ("pending", "discard"), id="pending"),
        pytest.param(("pending", "list"), ("pending", "retry"), ("pending", "discard"), id="pending-list"),
        pytest.param(("owed",), ("owed-revive",), ("owed-drop",), id="hidden-aliases"),
    ],
)


@pytest.mark.behaviour("CLI-19")
@PENDING_SPELLINGS
def test_pending_changes_are_listed_with_failures_next_try_and_operation(corral, frontend, listing, retry, discard):
    dead = an_intent(node_id="2", node_name="cpu-b", state="dead", attempts=10, next_retry_at=None, error="gone\x1b[2J")
    pending = [dead, an_intent()]
    frontend.on(
        "GET /api/backend-intents", json_answer(pending), json_answer(pending), json_answer(pending), json_answer([])
    )
    outcome = corral("backends", *listing)
    first, second, third = outcome.out.splitlines()
    assert first.split()[:3] == ["NODE", "BACKEND", "CHANGE"]
    assert [word in second for word in ("cpu-b", "install 2.0", "failed", "10", OPERATION)] == [True] * 5
    assert "\x1b" not in second
    assert [word in third for word in ("gpu-a", "pending", "3", "in 3", "returned 503")] == [True] * 5
    assert "corral backends pending retry NODE BACKEND" in outcome.err
    assert corral("backends", *listing, "--node", "gpu-a").err == ""
    assert [one["attempts"] for one in json.loads(corral("backends", *listing, "--json").out)] == [10, 3]
    assert "There are no pending changes" in corral("backends", *listing).err


@pytest.mark.behaviour("CLI-19")
@PENDING_SPELLINGS
def test_pending_change_is_discarded_or_retried_by_command(corral, frontend, listing, retry, discard):
    frontend.on("DELETE /api/backend-intents/gpu-a/cuda-engine", json_answer({"message": "gone"}))
    outcome = corral("backends", *discard, "gpu-a", "cuda-engine")
    assert (outcome.code, outcome.out) == (0, "")
    assert "Discarded the pending change of cuda-engine on gpu-a" in outcome.err
    answer = {"success": True, "message": "admitted", "id": OPERATION, "operation": an_operation()}
    frontend.on("POST /api/backend-intents/gpu-a/cuda-engine/revive", json_answer(answer))
    assert corral("backends", *retry, "gpu-a", "cuda-engine", "--detach").out == f"{OPERATION}\n"
    frontend.on("DELETE /api/backend-intents/gpu-a/other", refusal(404, "assignment_not_found", "There is none."))
    assert corral("backends", *discard, "gpu-a", "other").code == 1


def test_help_of_backends_names_pending_and_hides_the_earlier_spellings(corral):
    text = corral("backends", "--help").out
    assert "pending" in text
    assert "owed" not in text
    assert "discard" in corral("backends", "pending", "--help").out


def test_misspelt_command_of_pending_is_wrong_usage(corral):
    outcome = corral("backends", "pending", "retyr")
    assert outcome.code == 2
    assert "No such command 'retyr'" in outcome.err


def test_galleries_are_listed_and_fetched_again(corral, frontend):
    mine = {"name": "mine", "url": "https://host/i", "entries": 4, "fetched_at": NOON.isoformat(), "problem": "late"}
    galleries = [{"name": "corral", "entries": 9}, mine]
    frontend.on("GET /api/backends/galleries", json_answer(galleries), json_answer(galleries))
    lines = corral("backends", "galleries").out.splitlines()
    assert [word in lines[1] for word in ("corral", "comes with Corral", "9")] == [True] * 3
    assert [word in lines[2] for word in ("mine", "https://host/i", "4", "ago", "late")] == [True] * 5
    assert [one["name"] for one in json.loads(corral("backends", "galleries", "--json").out)] == ["corral", "mine"]
    answer = {"message": "The galleries are fetched now.", "galleries": galleries}
    frontend.on("POST /api/backends/galleries/refresh", json_answer(answer, 202))
    assert "are fetched now" in corral("backends", "galleries", "--refresh").err


def test_cleaning_shows_a_line_for_each_node_and_a_sum_and_names_those_that_cannot(corral, frontend):
    nodes = [a_node("gpu-b"), a_node("gpu-a"), a_node("away", status="offline"), a_node("agent", node_type="agent")]
    frontend.on("GET /api/nodes", json_answer(nodes), json_answer(nodes))
    item = {"name": "store/sha256-old", "size_bytes": 2048}
    collected = {"items": [item], "count": 1, "freed_bytes": 2048, "dry_run": True, "message": "one"}
    for name in ("gpu-a", "gpu-b"):
        frontend.on(f"POST /api/nodes/{name}/backends/collect", json_answer(collected))
    outcome = corral("backends", "clean", "--dry-run")
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()] == ["NODE", "gpu-a", "gpu-b"]
    assert "store/sha256-old" in outcome.out
    assert "4 KiB on 2 nodes would be freed. Dry run: nothing was changed." in outcome.err
    requests = [one for one in frontend.seen if one.path.endswith("/collect")]
    assert [dict(one.query) for one in requests] == [{"dry_run": "true"}] * 2
    refused = refusal(503, "node_unreachable", "Nobody listens there.")
    frontend.on("POST /api/nodes/gpu-b/backends/collect", refused, refused)
    outcome = corral("backends", "clean")
    assert outcome.code == 1
    assert "gpu-b: Nobody listens there." in outcome.err
    assert "2 KiB on 1 node freed" in outcome.err
    outcome = corral("backends", "clean", "--node", "gpu-a", "--node", "gpu-b", "--json")
    printed = json.loads(outcome.out)
    assert (outcome.code, printed["freed_bytes"], list(printed["nodes"]), list(printed["failed"])) == (
        1, 2048, ["gpu-a"], ["gpu-b"],
    )  # fmt: skip
