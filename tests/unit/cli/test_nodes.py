"""`corral nodes …` as a person or a script sees it."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
from contextlib import suppress

import pytest

from corral.cli.nodes import parse_label_changes
from corral.domain.errors import InvalidRequest
from tests.support.children import start_child
from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import GIB, KEY, a_node, an_event, json_answer, refusal

APPROVED = {"id": "1", "name": "gpu-a", "node_type": "backend", "status": "healthy", "message": "Node gpu-a is in."}


@pytest.mark.behaviour("CLI-1")
def test_list_is_a_plain_table_on_standard_output(corral, frontend):
    small = a_node("cpu-b", status="pending", total_vram=None, available_vram=None, labels={}, last_heartbeat=None)
    frontend.on("GET /api/nodes", json_answer([a_node(), small]))
    outcome = corral("nodes", "list")
    assert outcome.code == 0
    header, first, second = outcome.out.splitlines()
    assert header.split() == [
        "NAME", "STATUS", "TYPE", "CAPABILITY", "VRAM", "RAM", "DISK", "SLOTS", "LABELS", "HEARTBEAT", "AGE",
    ]  # fmt: skip
    assert first.startswith(
        "gpu-a   healthy            backend   nvidia-cuda-12   20/24 GiB   32/64 GiB   0/2 TiB   2 "
    )
    assert "site=attic" in first
    assert "gpu.vendor" not in first
    assert "never" in second
    assert header.index("STATUS") == first.index("healthy") == second.index("pending")
    assert "corral nodes approve cpu-b" in outcome.err


@pytest.mark.behaviour("CLI-2")
def test_list_as_json_is_what_the_frontend_knows(corral, frontend):
    frontend.on("GET /api/nodes", json_answer([a_node()]))
    outcome = corral("nodes", "list", "--json", "--selector", "site=attic", "--status", "healthy")
    assert json.loads(outcome.out)[0]["available_vram"] == 20 * GIB
    assert outcome.err == ""
    assert frontend.seen[0].query == {"selector": "site=attic", "status": "healthy"}


@pytest.mark.behaviour("CLI-1")
def test_empty_list_prints_no_data_and_says_what_to_do(corral, frontend):
    frontend.on("GET /api/nodes", json_answer([]))
    assert corral("nodes", "list").out == ""
    assert "corral tokens create" in corral("nodes", "list").err
    assert "No nodes match this filter" in corral("nodes", "list", "--status", "offline").err
    assert json.loads(corral("nodes", "list", "--json").out) == []


def test_name_cannot_control_the_terminal(corral, frontend):
    frontend.on("GET /api/nodes", json_answer([a_node("evil\x1b[2J\u202e\nname")]))
    frontend.on("GET /api/nodes/evil", json_answer(a_node("evil\x1b[2J", status_reason="\x1b]0;x\x07")))
    for outcome in (corral("nodes", "list"), corral("nodes", "show", "evil")):
        assert outcome.code == 0
        assert "\x1b" not in outcome.out + outcome.err
        assert "\u202e" not in outcome.out


def test_agent_node_is_shown_without_what_only_engines_have(corral, frontend):
    helper = a_node("helper", node_type="agent", max_runs=4)
    frontend.on("GET /api/nodes", json_answer([helper]))
    frontend.on("GET /api/nodes/helper", json_answer(helper))
    header, row = corral("nodes", "list").out.splitlines()
    shown = dict(zip(header.split(), row.split(), strict=False))
    assert (shown["TYPE"], shown["CAPABILITY"], shown["VRAM"]) == ("agent", "-", "-")
    full = corral("nodes", "show", "helper").out
    assert "agent" in full
    assert "up to 4 at the same time" in full
    for word in ("Slots", "VRAM budget", "Models", "Capability"):
        assert word not in full


def test_agent_node_without_places_for_runs_names_the_reasons(corral, frontend):
    frontend.on("GET /api/nodes/helper", json_answer(a_node("helper", node_type="agent", max_runs=0)))
    (line,) = (line for line in corral("nodes", "show", "helper").out.splitlines() if line.startswith("Runs"))
    assert "none" in line
    assert "see the worker's log" in line


def test_show_tells_everything_with_the_next_step(corral, frontend):
    waiting = a_node(status="pending", status_reason="Waits for approval.", cpu_threads=8, held_threads=3)
    frontend.on("GET /api/nodes/gpu-a", json_answer(waiting))
    out = corral("nodes", "show", "gpu-a").out
    for text in (
        "pending approval: Waits for approval.",
        "RTX 3090",
        "3 of 8 threads in use",
        "80% (19 GiB)",
        "as the worker reports",
        "set by an admin",
    ):
        assert text in out
    assert "gpu.vendor=nvidia,site=attic" in out
    assert "CONDITION   HOLDS     SINCE" in out
    assert "Not known yet." in out
    assert "Next: corral nodes approve gpu-a" in out


@pytest.mark.parametrize(
    ("status", "step"), [("draining", "corral nodes resume gpu-a"), ("offline", "remove gpu-a"), ("unhealthy", "NATS")]
)
def test_every_state_with_a_way_out_names_it(corral, frontend, status, step):
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node(status=status)))
    assert step in corral("nodes", "show", "gpu-a").out.splitlines()[-1]


def test_healthy_node_needs_no_step(corral, frontend):
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node()))
    assert "Next:" not in corral("nodes", "show", "gpu-a").out
    assert json.loads(corral("nodes", "show", "gpu-a", "--json").out)["name"] == "gpu-a"


def test_approve_drain_and_resume_talk_on_standard_error(corral, frontend):
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node(status="pending")))
    frontend.on("POST /api/nodes/gpu-a/approve", json_answer(APPROVED))
    frontend.on("POST /api/nodes/gpu-a/drain", json_answer(a_node(status="draining")))
    frontend.on("POST /api/nodes/gpu-a/resume", json_answer(a_node()))
    for verb, words in {"approve": "is in", "drain": "is draining", "resume": "is healthy"}.items():
        outcome = corral("nodes", verb, "gpu-a")
        assert (outcome.code, outcome.out) == (0, "")
        assert words in outcome.err
        assert json.loads(corral("nodes", verb, "gpu-a", "--json").out)["name"] == "gpu-a"


def test_key_of_an_approved_agent_is_data(corral, frontend):
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node(status="pending")))
    frontend.on("POST /api/nodes/gpu-a/approve", json_answer({**APPROVED, "api_token": "ck_once"}))
    assert corral("nodes", "approve", "gpu-a").out == "ck_once\n"


@pytest.mark.behaviour("TRUST-3")
def test_approve_shows_a_differing_address_and_asks_on_a_terminal(corral, frontend):
    note = "It registered the address 10.0.0.9, and its registration came from 10.0.0.7."
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node(status="pending", address_note=note)))
    frontend.on("POST /api/nodes/gpu-a/approve", json_answer(APPROVED))
    refused = corral("nodes", "approve", "gpu-a", typed="n\n", is_terminal=True)
    assert (refused.code, note in refused.err) == (1, True)
    assert bodies(frontend, "POST /api/nodes/gpu-a/approve") == []
    assert note in corral("nodes", "approve", "gpu-a").err


@pytest.mark.behaviour("TRUST-1")
def test_approve_sends_the_labels_that_it_has_read_and_prints_those_that_count(corral, frontend):
    labels = {"zone": "b"}
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node(status="pending", proposed_labels=labels)))
    frontend.on("POST /api/nodes/gpu-a/approve", json_answer({**APPROVED, "labels": labels}))
    assert "zone=b" in corral("nodes", "approve", "gpu-a").err
    assert bodies(frontend, "POST /api/nodes/gpu-a/approve") == [{"labels": labels}]


@pytest.mark.behaviour("TRUST-1")
def test_show_names_labels_that_wait_and_approve_labels_approves_them(corral, frontend):
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node(proposed_labels={"trust": "high"})))
    frontend.on("POST /api/nodes/gpu-a/approve-labels", json_answer({"trust": "high"}))
    shown = corral("nodes", "show", "gpu-a").out
    assert "trust=high" in shown
    assert "Next: corral nodes approve-labels gpu-a" in shown
    assert "trust=high" in corral("nodes", "approve-labels", "gpu-a").err
    assert bodies(frontend, "POST /api/nodes/gpu-a/approve-labels") == [{"labels": {"trust": "high"}}]


def test_removing_asks_on_a_terminal_and_no_means_no(corral, frontend):
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node(model_count=3)))
    frontend.on("DELETE /api/nodes/gpu-a", json_answer({"message": "gone"}))
    outcome = corral("nodes", "remove", "gpu-a", typed="n\n", is_terminal=True)
    assert outcome.code == 1
    assert outcome.out == ""
    assert "Remove gpu-a (healthy, 3 models)?" in outcome.err
    assert bodies(frontend, "DELETE /api/nodes/gpu-a") == []
    assert corral("nodes", "remove", "gpu-a", typed="y\n", is_terminal=True).code == 0
    assert len(bodies(frontend, "DELETE /api/nodes/gpu-a")) == 1


@pytest.mark.parametrize(("words", "is_terminal"), [(["--yes"], True), ([], False), (["--yes", "--json"], False)])
def test_removing_does_not_ask_with_yes_or_without_a_terminal(corral, frontend, words, is_terminal):
    frontend.on("DELETE /api/nodes/gpu-a", json_answer({"message": "gone"}))
    assert corral("nodes", "remove", "gpu-a", *words, is_terminal=is_terminal).code == 0
    assert len(frontend.seen) == 1


def test_labels_are_set_and_removed_in_one_command(corral, frontend):
    frontend.on("PATCH /api/nodes/gpu-a/labels", json_answer({}))
    frontend.on("DELETE /api/nodes/gpu-a/labels/old", json_answer(None))
    frontend.on("GET /api/nodes/gpu-a/labels", json_answer({"site": "attic", "a": "b=c"}))
    outcome = corral("nodes", "label", "gpu-a", "site=attic", "a=b=c", "empty=", "old-")
    assert outcome.out == "a=b=c\nsite=attic\n"
    assert bodies(frontend, "PATCH /api/nodes/gpu-a/labels") == [{"site": "attic", "a": "b=c", "empty": ""}]
    assert json.loads(corral("nodes", "label", "gpu-a", "--json").out) == {"site": "attic", "a": "b=c"}


@pytest.mark.parametrize("changes", [["word"], ["=x"], ["-"], ["a=1", "a-"], ["a=1", "b"]])
def test_unclear_label_changes_nothing(corral, frontend, changes):
    with pytest.raises(InvalidRequest):
        parse_label_changes(changes)
    assert corral("nodes", "label", "gpu-a", "--", *changes).code == 1
    assert frontend.seen == []


@pytest.mark.parametrize(("words", "sent"), [(["80%"], "80%"), (["12GB"], "12GB"), (["none"], "")])
def test_budget_is_a_share_a_size_or_none(corral, frontend, words, sent):
    frontend.on("PUT /api/nodes/gpu-a/vram-budget", json_answer({"vram_budget": sent, "vram_budget_bytes": 5 * GIB}))
    outcome = corral("nodes", "budget", "gpu-a", *words)
    assert outcome.code == 0
    assert bodies(frontend, "PUT /api/nodes/gpu-a/vram-budget") == [{"value": sent}]
    assert "5 GiB" in outcome.err


def test_budget_and_slots_can_be_reset(corral, frontend):
    frontend.on("DELETE /api/nodes/gpu-a/vram-budget", json_answer({"vram_budget": "", "reset": True}))
    frontend.on("DELETE /api/nodes/gpu-a/max-replicas-per-model", json_answer({"max_replicas_per_model": 1}))
    frontend.on("PUT /api/nodes/gpu-a/max-replicas-per-model", json_answer({"max_replicas_per_model": 4}))
    assert "no limit, as its worker reports" in corral("nodes", "budget", "gpu-a", "--reset").err
    assert "1 per model, as its worker reports" in corral("nodes", "slots", "gpu-a", "--reset").err
    assert json.loads(corral("nodes", "slots", "gpu-a", "4", "--json").out)["max_replicas_per_model"] == 4


@pytest.mark.behaviour("CLI-3")
@pytest.mark.parametrize(
    "words",
    [["budget", "gpu-a"], ["budget", "gpu-a", "80%", "--reset"], ["slots", "gpu-a", "0"], ["slots", "gpu-a", "x"]],
)
def test_value_or_reset_is_needed_and_not_both(corral, frontend, words):
    outcome = corral("nodes", *words)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert frontend.seen == []


@pytest.mark.behaviour("CLI-2")
def test_watch_prints_an_object_per_event_and_resumes(corral, frontend):
    frontend.streams = [an_event(1, name="gpu-a"), b"id: 9-9\nevent: reset\ndata: {}\n\n" + an_event(2)]
    outcome = corral("nodes", "watch", "--json")
    kinds = [json.loads(line)["kind"] for line in outcome.out.splitlines()]
    assert kinds == ["node.approved", "reset", "node.approved"]
    assert outcome.err.count("The event stream broke") == 2
    assert outcome.err.count("The event stream is back") == 1
    assert frontend.seen[0].query == {"topics": "node"}
    assert frontend.seen[1].headers["Last-Event-ID"] == "1-1"
    # The stand-in's script ends with a refusal, which ends the command.
    assert outcome.code == 2


@pytest.mark.behaviour("CLI-1")
def test_watch_prints_a_line_per_event_in_a_pipe(corral, frontend):
    frontend.streams = [an_event(1, name="gpu-\x1b[1ma", by="admin")]
    line = corral("nodes", "watch").out.splitlines()[0]
    assert line == "2026-01-02 12:00:00 UTC  node.approved  gpu-\N{REPLACEMENT CHARACTER}[1ma  by=admin"


def test_watch_on_a_terminal_redraws_the_table_after_each_event(frontend, tmp_path):
    gone = json_answer([a_node(status="healthy"), a_node("b", status="offline")])
    frontend.on("GET /api/nodes", json_answer([a_node(status="pending")]), gone)
    frontend.streams = [an_event(1)]
    frontend.holds_last_stream = True
    ours, theirs = pty.openpty()
    environment = {
        "HOME": str(tmp_path),
        "CORRAL_URL": frontend.url,
        "CORRAL_KEY": KEY,
        "NO_COLOR": "1",
        "COLUMNS": "150",
    }
    with start_child(
        [sys.executable, "-m", "corral", "nodes", "watch"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = ""
        while "offline" not in shown:
            shown += os.read(ours, 4096).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        # Whatever is still on its way: a terminal that nobody reads would keep the program from ending.
        with suppress(OSError):
            while os.read(ours, 4096):
                pass
    os.close(ours)
    assert process.returncode == 130
    assert shown.index("pending") < shown.index("healthy")
    assert "Press Ctrl-C to quit." in shown
    assert "\x1b[32m" not in shown


def test_unknown_node_shows_the_error_of_the_frontend(corral, frontend):
    frontend.on("GET /api/nodes/gpu-9", refusal(404, "node_not_found", "There is no node gpu-9.", "Look at the list."))
    outcome = corral("nodes", "show", "gpu-9")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "error: There is no node gpu-9.\n\nhint: Look at the list.\n"
