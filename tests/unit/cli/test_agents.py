"""`corral agents …`: what the commands send, what they print where, and how a conversation ends."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
from contextlib import suppress

import pytest
from aiohttp import web

from corral.cli import agent_chat
from tests.support.children import start_child
from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import KEY, json_answer, refusal

AT = "2026-01-02T12:00:00Z"
RUN_ID = "01a1eda5-a3fd-783e-83d6-08912054e399"
THREAD_ID = "01a1eda5-a3fd-783e-83d6-08912054e311"
CHAT = "POST /api/agents/clock/chat"
EVENTS = f"GET /api/runs/{RUN_ID}/events"
RUN = f"GET /api/runs/{RUN_ID}"
SENT = {"run_id": RUN_ID, "message_id": RUN_ID, "thread_id": THREAD_ID}


def an_agent(**changes):
    made = {
        "id": "a1", "name": "clock", "description": "Tells the time.", "model": "chat", "status": "active",
        "owner": "user:1", "owner_name": "ada", "revision": 2, "created_at": AT, "updated_at": AT,
        "config": {
            "name": "clock", "shared": False, "model": "chat", "system_prompt": "Be brief.",
            "mcp_stdio_servers": ["time"], "mcp_servers": [{"name": "web", "url": "https://x.example/mcp"}],
            "tool_rules": {"time__*": "ask"}, "tool_mode": "guided",
        },
    }  # fmt: skip
    return made | changes


def a_run(**changes):
    made = {
        "id": RUN_ID, "kind": "agent_turn", "subject": "clock", "state": "completed", "message": "Completed.",
        "trigger": "api", "owner_name": "ada", "attempt": 1, "last_seq": 2, "created_at": AT, "finished_at": AT,
        "usage": {}, "content": "It is noon.", "thread_id": THREAD_ID,
    }  # fmt: skip
    return made | changes


def frame(seq, kind, tool="", **data):
    entry = {"seq": seq, "at": AT, "type": kind, "tool": tool, "data": data}
    return f"id: {seq}\nevent: {kind}\ndata: {json.dumps(entry)}\n\n"


def stream_of(*frames):
    async def answer(request):
        del request
        text = "event: hello\ndata: {}\n\n" + "".join(frames)
        return web.Response(text=text, content_type="text/event-stream")

    return answer


TURN = (
    frame(1, "status", message="MCP server web is left out: it is away."),
    frame(2, "reasoning", text="They ask for the time."),
    frame(3, "tool_call", "time__now", call_id="c1", arguments={"zone": "UTC"}),
    frame(4, "tool_result", "time__now", call_id="c1", content='{"t": "12:00"}'),
    frame(5, "content", text="It is "),
    frame(6, "content", text="noon.\x1b[2J"),
    frame(7, "end", state="completed", content="It is noon."),
)


def test_agents_are_listed_with_owner_and_next_run(corral, frontend):
    shared = an_agent(name="helper", is_own=False, shared=True, next_run_at="2999-01-01T00:00:00Z")
    frontend.on("GET /api/agents", json_answer({"items": [an_agent(), shared]}))
    lines = corral("agents", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "MODEL", "STATE", "OWNER", "NEXT", "RUN", "DESCRIPTION"]
    assert "you" in lines[1]
    assert "ada, shared" in lines[2]
    assert [one["name"] for one in json.loads(corral("agents", "list", "--all-users", "--json").out)] == [
        "clock",
        "helper",
    ]
    assert frontend.seen[-1].query == {"all_users": "true"}
    frontend.on("GET /api/agents", json_answer({"items": []}))
    assert "corral agents create" in corral("agents", "list").err


def test_agent_is_shown_with_its_tools_and_instructions(corral, frontend):
    status = {"name": "clock", "status": "active", "is_running": False, "open_runs": 1, "threads": 3, "history": []}
    frontend.on("GET /api/agents/clock", json_answer(an_agent()))
    frontend.on("GET /api/agents/clock/status", json_answer(status))
    shown = corral("agents", "show", "clock", "--owner", "user:1").out
    assert "web, time" in shown
    assert "time__*: ask" in shown
    assert shown.endswith("\nBe brief.\n")
    assert frontend.seen[-1].query == {"owner": "user:1"}


@pytest.mark.behaviour("AGENT-49")
@pytest.mark.parametrize(
    ("route", "words"),
    [
        ("POST /api/agents", ("create", "clock", "--model", "smollm2")),
        ("PUT /api/agents/clock", ("edit", "clock", "--model", "smollm2")),
    ],
)
def test_warning_about_the_model_of_an_agent_is_printed(corral, frontend, route, words):
    frontend.on("GET /api/agents/clock", json_answer(an_agent()))
    warnings = ["There is no model 'smollm2'. Did you mean smol?"]
    frontend.on(route, json_answer(an_agent() | {"warnings": warnings}, status=201))
    outcome = corral("agents", *words)
    assert outcome.code == 0
    assert "warning: There is no model 'smollm2'. Did you mean smol?" in outcome.err


@pytest.mark.behaviour("AGENT-41")
def test_agent_is_created_from_options_and_a_file_and_options_win(corral, frontend, tmp_path):
    frontend.on("POST /api/agents", json_answer(an_agent(), status=201))
    file, prompt = tmp_path / "agent.yaml", tmp_path / "prompt.txt"
    file.write_text("name: other\nmodel: small\nmax_tokens: 100\n")
    prompt.write_text("Be brief.")
    outcome = corral(
        "agents", "create", "clock", "-f", str(file), "-m", "chat", "-s", f"@{prompt}", "--mcp-server", "time",
        "--mcp-url", "web=https://x.example/mcp", "--mcp-url", "https://y.example/mcp?a=b", "--tool-rule",
        "time__*=ask", "--tool-mode", "guided", "--tool-choice", "required", "--goal", "Watch.", "--every", "1h",
        "--agent", "helper", "--shared", "--max-iterations", "2", "--collection", "manuals",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert bodies(frontend, "POST /api/agents") == [
        {
            "name": "clock",
            "model": "chat",
            "max_tokens": 100,
            "system_prompt": "Be brief.",
            "mcp_stdio_servers": ["time"],
            "mcp_servers": [{"name": "web", "url": "https://x.example/mcp"}, {"url": "https://y.example/mcp?a=b"}],
            "tool_rules": {"time__*": "ask"},
            "tool_mode": "guided",
            "tool_choice": "required",
            "permanent_goal": "Watch.",
            "standalone_job": True,
            "periodic_runs": "1h",
            "agents": ["helper"],
            "shared": True,
            "max_iterations": 2,
            "collection": "manuals",
            "enable_kb": True,
        }
    ]
    assert "corral agents chat clock" in outcome.err
    assert corral("agents", "create", "clock", "--tool-rule", "ask").code == 2


@pytest.mark.behaviour("AGENT-41")
def test_edit_changes_what_is_named_and_keeps_the_rest(corral, frontend):
    frontend.on("GET /api/agents/clock", json_answer(an_agent()))
    frontend.on("PUT /api/agents/clock", json_answer(an_agent(name="watch")))
    outcome = corral("agents", "edit", "clock", "--name", "watch", "--goal", "", "--not-shared")
    assert outcome.err == "Changed agent watch.\n"
    [body] = bodies(frontend, "PUT /api/agents/clock")
    assert body == an_agent()["config"] | {"name": "watch", "permanent_goal": "", "standalone_job": False}
    assert "No option says what to change" in corral("agents", "edit", "clock").err


def test_agent_is_paused_resumed_cloned_and_deleted(corral, frontend):
    frontend.on("PUT /api/agents/clock/pause", json_answer(an_agent(status="paused")))
    assert "corral agents resume clock" in corral("agents", "pause", "clock").err
    frontend.on("PUT /api/agents/clock/resume", json_answer(an_agent()))
    assert json.loads(corral("agents", "resume", "clock", "--json").out)["status"] == "active"
    frontend.on("POST /api/agents/clock/clone", json_answer(an_agent(name="clock-copy"), status=201))
    assert "Created agent clock-copy." in corral("agents", "clone", "clock").err
    frontend.on("GET /api/agents/clock", json_answer(an_agent()))
    frontend.on("DELETE /api/agents/clock", json_answer(None, status=204))
    assert corral("agents", "delete", "clock", typed="n\n", is_terminal=True).code == 1
    assert bodies(frontend, "DELETE /api/agents/clock") == []
    assert corral("agents", "delete", "clock", "-y", is_terminal=True).err == "Deleted agent clock.\n"


@pytest.mark.behaviour("AGENT-41")
def test_agent_is_exported_and_imported_with_what_is_missing_named(corral, frontend, tmp_path):
    frontend.on("GET /api/agents/clock/export", json_answer({"name": "clock", "model": "chat"}))
    file = tmp_path / "clock.json"
    file.write_text(corral("agents", "export", "clock").out)
    made = an_agent(name="watch") | {"ignored": ["enable_kb"], "missing_secrets": ["secret:tools"]}
    frontend.on("POST /api/agents/import", json_answer(made, status=201))
    outcome = corral("agents", "import", str(file), "--name", "watch")
    assert bodies(frontend, "POST /api/agents/import") == [{"name": "clock", "model": "chat"}]
    assert frontend.seen[-1].query == {"name": "watch"}
    assert "Ignored fields, which have no effect in Corral: enable_kb." in outcome.err
    assert "corral secrets set tools" in outcome.err


@pytest.mark.behaviour("AGENT-42")
def test_message_prints_the_answer_as_data_and_the_turn_as_messages(corral, frontend):
    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream_of(*TURN))
    frontend.on(RUN, json_answer(a_run()))
    outcome = corral("agents", "chat", "clock", "What", "time?", "--thread", THREAD_ID)
    assert outcome.code == 0, outcome.err
    assert outcome.out == "It is noon.\N{REPLACEMENT CHARACTER}[2J\n"
    assert outcome.err.splitlines() == [
        "MCP server web is left out: it is away.",
        "They ask for the time.",
        '-> time__now {"zone": "UTC"}',
        '<- time__now {"t": "12:00"}',
        f"Continue: corral agents chat clock --thread {THREAD_ID}",
    ]
    assert bodies(frontend, CHAT) == [{"message": "What time?", "thread_id": THREAD_ID}]
    whole = corral("agents", "chat", "clock", "-", "--json", typed="What time?\n")
    assert json.loads(whole.out)["content"] == "It is noon."
    assert whole.err == ""


@pytest.mark.behaviour("AGENT-42")
def test_turn_that_fails_exits_with_1_and_its_reason(corral, frontend):
    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream_of(frame(1, "end", state="failed", error_text="The model is away.")))
    frontend.on(RUN, json_answer(a_run(state="failed", error_text="The model is away.", content="")))
    outcome = corral("agents", "chat", "clock", "hi")
    assert (outcome.code, outcome.out) == (1, "")
    assert "error: The turn failed. The model is away." in outcome.err
    assert f"hint: corral runs show {RUN_ID}" in outcome.err
    frontend.on(CHAT, refusal(503, "no_agent_worker", "No agent node takes runs.", "corral worker --type agent"))
    assert "No agent node takes runs." in corral("agents", "chat", "clock", "hi").err
    assert "empty" in corral("agents", "chat", "clock", " ").err


@pytest.mark.behaviour("AGENT-42")
def test_turn_whose_worker_was_lost_goes_on_with_the_answer_of_the_next_one(corral, frontend):
    lost = frame(1, "end", state="failed", error_code="worker_stopping", error_text="The worker was stopped.")
    again = frame(2, "retried", text="The run begins again.")
    rest = (frame(3, "content", text="It is noon."), frame(4, "end", state="completed", content="It is noon."))
    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream_of(lost, again, *rest))
    frontend.on(RUN, json_answer(a_run()))
    outcome = corral("agents", "chat", "clock", "What", "time?")
    assert (outcome.code, outcome.out) == (0, "It is noon.\n"), outcome.err
    assert outcome.err.splitlines()[0] == "The run begins again."


@pytest.mark.behaviour("AGENT-43")
@pytest.mark.parametrize(("typed", "approved"), [("y\n", True), ("n\n", False)])
def test_tool_call_is_decided_on_the_terminal(corral, frontend, typed, approved):
    waits = frame(1, "approval_requested", "files__write", call_id="c1", arguments={"path": "a"})
    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream_of(waits, frame(2, "end", state="completed")))
    frontend.on(RUN, json_answer(a_run()))
    decide = f"POST /api/runs/{RUN_ID}/calls/c1"
    frontend.on(decide, json_answer(a_run()))
    outcome = corral("agents", "chat", "clock", "hi", typed=typed, is_terminal=True)
    assert 'Allow files__write {"path": "a"}? [y/N]' in outcome.err
    assert bodies(frontend, decide) == [{"approved": approved, "reason": ""}]


@pytest.mark.behaviour("AGENT-43")
def test_tool_call_without_a_terminal_waits_and_says_how_to_decide(corral, frontend):
    waits = frame(1, "approval_requested", "files__write", call_id="c1", arguments={"path": "a"})
    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream_of(waits, frame(2, "end", state="completed")))
    frontend.on(RUN, json_answer(a_run()))
    decide = f"POST /api/runs/{RUN_ID}/calls/c1"
    assert f"corral runs approve {RUN_ID} c1" in corral("agents", "chat", "clock", "hi").err
    assert bodies(frontend, decide) == []
    frontend.on(EVENTS, stream_of(frame(1, "approval_requested", "f", call_id="c\x1b[2J"), frame(2, "end")))
    assert "c\N{REPLACEMENT CHARACTER}[2J" in corral("agents", "chat", "clock", "hi").err
    frontend.on(EVENTS, stream_of(waits, frame(2, "end", state="completed")))
    frontend.on(decide, refusal(409, "run_ended", "The run has completed already."))
    outcome = corral("agents", "chat", "clock", "hi", "--approve-all")
    assert (outcome.code, bodies(frontend, decide)) == (0, [{"approved": True, "reason": ""}])
    assert "The run has completed already." in outcome.err


@pytest.mark.behaviour("AGENT-42")
def test_conversation_stays_in_its_thread_until_a_new_one_is_started(corral, frontend):
    frontend.on("GET /api/agents/clock", json_answer(an_agent()))
    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream_of(*TURN))
    frontend.on(RUN, json_answer(a_run()))
    assert corral("agents", "chat", "clock", typed="one\n\ntwo\n/new\nthree\n").code == 0
    assert [body["thread_id"] for body in bodies(frontend, CHAT)] == [None, THREAD_ID, None]
    lines = corral("agents", "chat", "clock", "--json", typed="one\ntwo\n").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [RUN_ID, RUN_ID]
    frontend.on("GET /api/agents/clock", refusal(404, "agent_not_found", "There is no agent 'clock'."))
    assert "There is no agent" in corral("agents", "chat", "clock", typed="never sent\n").err
    assert len(bodies(frontend, CHAT)) == 5


def test_turn_that_waits_for_a_place_says_so_once(corral, frontend, monkeypatch):
    monkeypatch.setattr(agent_chat, "QUEUE_LOOK_S", 0.02)
    looks, looked = [], asyncio.Event()

    async def run(request):
        looks.append(request.path)
        # The sentence of the first two looks has been printed when the command looks for the third time.
        if len(looks) == 3:
            looked.set()
        waiting = a_run(state="queued", message="Waits for a free place; 2 before it.", finished_at=None)
        return await json_answer(waiting)(request)

    async def stream(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"event: hello\ndata: {}\n\n")
        await looked.wait()
        frontend.on(RUN, json_answer(a_run()))
        await response.write("".join(TURN).encode())
        return response

    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream)
    frontend.on(RUN, run)
    outcome = corral("agents", "chat", "clock", "hi")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("Waits for a free place; 2 before it.") == 1
    assert outcome.out.startswith("It is noon.")


@pytest.mark.behaviour("AGENT-43")
def test_ctrl_c_cancels_the_turn_and_the_conversation_goes_on(frontend, tmp_path):
    cancelled = asyncio.Event()

    async def stream(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"event: hello\ndata: {{}}\n\n{frame(1, 'content', text='Well, ')}".encode())
        await cancelled.wait()
        await response.write(frame(2, "end", state="cancelled").encode())
        return response

    async def cancel(request):
        cancelled.set()
        return await json_answer(a_run(state="cancelled"))(request)

    frontend.on("GET /api/agents/clock", json_answer(an_agent()))
    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream)
    frontend.on(f"POST /api/runs/{RUN_ID}/cancel", cancel)
    frontend.on(RUN, json_answer(a_run(state="cancelled", content="")))
    ours, theirs = pty.openpty()
    environment = {"HOME": str(tmp_path), "CORRAL_URL": frontend.url, "CORRAL_KEY": KEY, "NO_COLOR": "1"}
    command = [sys.executable, "-m", "corral", "agents", "chat", "clock"]
    with start_child(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = ""

        def read_until(text):
            nonlocal seen
            while text not in seen:
                seen += os.read(ours, 4096).decode(errors="replace")
            seen = seen.partition(text)[2]

        read_until("> ")
        os.write(ours, b"hi\n")
        read_until("Well, ")
        process.send_signal(signal.SIGINT)
        read_until("The turn was cancelled.")
        read_until("> ")
        os.write(ours, b"\x04")
        with suppress(OSError):
            while part := os.read(ours, 4096):
                seen += part.decode(errors="replace")
    os.close(ours)
    assert process.returncode == 0, seen
    assert f"--thread {THREAD_ID}" in seen
    assert len(bodies(frontend, f"POST /api/runs/{RUN_ID}/cancel")) == 1


@pytest.mark.behaviour("AGENT-43")
def test_second_ctrl_c_leaves_while_the_turn_is_being_cancelled(frontend, tmp_path):
    async def stream(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"event: hello\ndata: {{}}\n\n{frame(1, 'content', text='Well, ')}".encode())
        await frontend.over.wait()
        return response

    frontend.on(CHAT, json_answer(SENT, status=202))
    frontend.on(EVENTS, stream)
    frontend.on(f"POST /api/runs/{RUN_ID}/cancel", json_answer(a_run(state="cancelled")))
    ours, theirs = pty.openpty()
    environment = {"HOME": str(tmp_path), "CORRAL_URL": frontend.url, "CORRAL_KEY": KEY, "NO_COLOR": "1"}
    command = [sys.executable, "-m", "corral", "agents", "chat", "clock", "hi"]
    with start_child(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = ""
        for expected in ("Well, ", "Press Ctrl-C again to leave without waiting."):
            while expected not in seen:
                seen += os.read(ours, 4096).decode(errors="replace")
            process.send_signal(signal.SIGINT)
        with suppress(OSError):
            while os.read(ours, 4096):
                pass
    os.close(ours)
    assert process.returncode == 130, seen


def test_threads_are_listed_shown_and_deleted(corral, frontend):
    thread = {"id": THREAD_ID, "title": "What time?", "messages": 2, "created_at": AT, "updated_at": AT}
    call = {"id": "c1", "type": "function", "function": {"name": "time__now", "arguments": "{}"}}
    pages = [
        {"messages": [{"seq": 1, "role": "user", "content": "What time?", "created_at": AT}], "has_more": True},
        {"messages": [{"seq": 2, "role": "assistant", "content": "", "tool_calls": [call], "created_at": AT}]},
    ]
    frontend.on("GET /api/agents/clock/threads", json_answer({"threads": [thread]}))
    frontend.on(f"GET /api/agents/clock/threads/{THREAD_ID}", json_answer(thread))
    messages = f"GET /api/agents/clock/threads/{THREAD_ID}/messages"
    frontend.on(messages, *map(json_answer, pages))
    assert "2054e311" in corral("agents", "threads", "list", "clock").out
    shown = corral("agents", "threads", "show", "clock", "2054e311")
    assert shown.out == "user: What time?\nassistant: calls time__now {}\n"
    assert [seen.query["after"] for seen in frontend.seen if seen.path.endswith("/messages")] == ["0", "1"]
    assert f"--thread {THREAD_ID}" in shown.err
    frontend.on(f"DELETE /api/agents/clock/threads/{THREAD_ID}", json_answer(None, status=204))
    assert corral("agents", "threads", "delete", "clock", THREAD_ID).err == f"Deleted thread {THREAD_ID}.\n"
    frontend.on("GET /api/agents/clock/threads", json_answer({"threads": []}))
    assert "corral agents chat clock" in corral("agents", "threads", "list", "clock").err
