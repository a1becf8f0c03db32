"""`corral runs …`: lists, one run with its trace, cancellation, and decisions about tool calls."""

from __future__ import annotations

import json

from aiohttp import web

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal

AT = "2026-01-02T12:00:00Z"
RUN_ID = "01a1eda5-a3fd-783e-83d6-08912054e399"


def a_run(**changes):
    made = {
        "id": RUN_ID, "kind": "agent_turn", "subject": "helper", "state": "running", "message": "Runs on agent-1.",
        "trigger": "api", "owner_name": "ada", "attempt": 1, "node": "agent-1", "last_seq": 2, "created_at": AT,
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "steps": 1, "tool_calls": 1},
    }  # fmt: skip
    return made | changes


def test_runs_are_listed_with_their_states_in_words(corral, frontend):
    frontend.on("GET /api/runs", json_answer({"runs": [a_run(state="waiting_approval")]}))
    lines = corral("runs", "list").out.splitlines()
    assert lines[0].split() == ["ID", "KIND", "SUBJECT", "STATE", "NODE", "AGE", "MESSAGE"]
    assert "2054e399" in lines[1]
    assert "waiting for approval" in lines[1]


def test_runs_list_without_any_says_how_to_start_one(corral, frontend):
    frontend.on("GET /api/runs", json_answer({"runs": []}))
    assert "corral agents chat" in corral("runs", "list", "--state", "open", "--all-users").err
    assert frontend.seen[-1].query == {"state": "open", "limit": "20", "all_users": "true"}


def test_run_is_found_by_the_end_of_its_id_and_shown_with_its_trace(corral, frontend):
    call = {"seq": 1, "at": AT, "type": "tool_call", "tool": "files__read", "data": {"arguments": '{"path": "a"}'}}
    answer = {"seq": 2, "at": AT, "type": "content", "data": {"text": "hello\x1b[31m"}}
    waiting = [{"call_id": "c1", "tool": "files__write"}]
    frontend.on("GET /api/runs", json_answer({"runs": [a_run()]}))
    frontend.on(f"GET /api/runs/{RUN_ID}", json_answer(a_run(approvals=waiting)))
    frontend.on(f"GET /api/runs/{RUN_ID}/trace", json_answer({"events": [call, answer]}))
    shown = corral("runs", "show", "2054e399")
    assert 'files__read {"path": "a"}' in shown.out
    assert "hello" in shown.out
    assert "\x1b" not in shown.out
    assert f"corral runs approve {RUN_ID} c1" in shown.err
    whole = json.loads(corral("runs", "show", RUN_ID, "--json").out)
    assert [event["seq"] for event in whole["trace"]] == [1, 2]


def test_run_is_shown_with_the_reason_why_a_server_was_left_out_and_texts_in_one_piece(corral, frontend):
    left_out = {"message": "MCP server time is left out: There is no program uvx.", "code": "mcp_program_failed"}
    events = [
        {"seq": 1, "at": AT, "type": "status", "data": left_out},
        {"seq": 2, "at": AT, "type": "step", "data": {"step": 1}},
        {"seq": 3, "at": AT, "type": "reasoning", "data": {"text": "Hay?"}},
        {"seq": 4, "at": AT, "type": "content", "data": {"text": "The herd "}},
        {"seq": 5, "at": AT, "type": "content", "data": {"text": "is fed."}},
    ]
    frontend.on(f"GET /api/runs/{RUN_ID}", json_answer(a_run()))
    frontend.on(f"GET /api/runs/{RUN_ID}/trace", json_answer({"events": events}))
    lines = [line.partition("  ")[2] for line in corral("runs", "show", RUN_ID).out.splitlines() if line[:3] == "12:"]
    assert lines == [
        "status      MCP server time is left out: There is no program uvx.",
        "model call  1",
        "reasoning   Hay?",
        "content     The herd is fed.",
    ]


def test_run_is_shown_without_what_its_texts_would_do_to_a_terminal(corral, frontend):
    waiting = [{"call_id": "c\x1b[2J", "tool": "files__\x9bwrite"}]
    frontend.on(f"GET /api/runs/{RUN_ID}", json_answer(a_run(approvals=waiting, content="Done.\x1b]0;title\x07\nBye.")))
    frontend.on(f"GET /api/runs/{RUN_ID}/trace", json_answer({"events": []}))
    shown = corral("runs", "show", RUN_ID)
    assert "Done.\N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}\nBye." in shown.out
    assert "files__\N{REPLACEMENT CHARACTER}write waits for approval" in shown.err
    frontend.on(f"POST /api/runs/{RUN_ID}/cancel", json_answer(a_run(subject="helper\x1b[2J")))
    assert not {"\x1b", "\x07", "\x9b"} & set(shown.out + shown.err + corral("runs", "cancel", RUN_ID).err)


def test_run_is_cancelled_and_an_ended_one_is_refused(corral, frontend):
    frontend.on(f"POST /api/runs/{RUN_ID}/cancel", json_answer(a_run(state="cancelled")))
    assert corral("runs", "cancel", RUN_ID).err == "Cancelled the run of helper.\n"
    frontend.on(f"POST /api/runs/{RUN_ID}/cancel", refusal(409, "run_ended", "The run has completed already."))
    outcome = corral("runs", "cancel", RUN_ID)
    assert outcome.code == 1
    assert "completed already" in outcome.err


def test_tool_call_is_approved_or_refused_with_a_reason(corral, frontend):
    path = f"POST /api/runs/{RUN_ID}/calls/c1"
    frontend.on(path, json_answer(a_run()))
    corral("runs", "approve", RUN_ID, "c1")
    corral("runs", "approve", RUN_ID, "c1", "--refuse", "--reason", "not mine")
    assert bodies(frontend, path) == [
        {"approved": True, "reason": ""},
        {"approved": False, "reason": "not mine"},
    ]


def test_run_is_watched_over_signs_of_life_and_a_cut_to_its_end(corral, frontend):
    answer = {"seq": 1, "at": AT, "type": "content", "data": {"text": "hello"}}
    left_out = {"seq": 2, "at": AT, "type": "status", "data": {"message": "MCP server time is left out: it ended."}}
    end = {"seq": 3, "at": AT, "type": "end", "data": {"state": "completed"}}
    hello, still = "event: hello\ndata: {}\n\n", "event: still\ndata: {}\n\n"
    streams = [hello, f"{hello}id: 1\nevent: content\ndata: {json.dumps(answer)}\n\n{still}"]
    positions = []

    async def stream(request):
        positions.append(request.headers["Last-Event-ID"])
        return web.Response(text=streams[len(positions) - 1], content_type="text/event-stream")

    async def run(request):
        ended = {"state": "completed", "finished_at": AT} if len(positions) == len(streams) else {}
        return await json_answer(a_run(**ended))(request)

    async def trace(request):
        rest = {"0": [answer], "1": [left_out], "2": [end]}[request.query["after"]]
        return await json_answer({"events": rest, "has_more": rest != [end]})(request)

    frontend.on(f"GET /api/runs/{RUN_ID}/events", stream)
    frontend.on(f"GET /api/runs/{RUN_ID}", run)
    frontend.on(f"GET /api/runs/{RUN_ID}/trace", trace)
    watched = corral("runs", "watch", RUN_ID)
    assert (watched.code, positions) == (0, ["0", "0"]), watched.err
    lines = watched.out.splitlines()
    assert [line.split()[1] for line in lines] == ["content", "status", "end"]
    assert "MCP server time is left out" in lines[1]


def test_run_whose_worker_was_lost_is_watched_to_the_end_of_its_last_attempt(corral, frontend):
    def frame(seq, kind, **data):
        entry = {"seq": seq, "at": AT, "type": kind, "data": data}
        return f"id: {seq}\nevent: {kind}\ndata: {json.dumps(entry)}\n\n"

    lost = frame(1, "end", state="failed", error_code="worker_stopping", error_text="The worker was stopped.")
    streams = [lost, frame(2, "retried", text="It begins again.") + frame(3, "end", state="completed")]
    positions, looks = [], []

    async def stream(request):
        positions.append(request.headers["Last-Event-ID"])
        return web.Response(text=streams[len(positions) - 1], content_type="text/event-stream")

    async def run(request):
        # The first look is between the attempts; the trace ends a moment before the run.
        looks.append(request.path)
        ended = {"state": "completed", "finished_at": AT} if len(looks) == 3 else {}
        return await json_answer(a_run(**ended))(request)

    frontend.on(f"GET /api/runs/{RUN_ID}/events", stream)
    frontend.on(f"GET /api/runs/{RUN_ID}", run)
    watched = corral("runs", "watch", RUN_ID)
    assert watched.code == 0, watched.err
    assert [line.split()[1] for line in watched.out.splitlines()] == ["end", "retried", "end"]
    assert (positions, len(looks)) == (["0", "1"], 3)
