"""`corral tasks …` and `corral jobs …`: what they send, what they print, and how they end."""

from __future__ import annotations

import base64
import json

import pytest
from aiohttp import web

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal

AT = "2026-01-02T12:00:00Z"
TASK_ID = "01a1eda5-a3fd-783e-83d6-08912054e300"
JOB_ID = "01a1eda5-a3fd-783e-83d6-08912054e399"
EXECUTE = "POST /api/agent/jobs/execute"


def a_task(**changes):
    made = {
        "id": TASK_ID, "name": "greet", "model": "chat", "prompt": "Hello {{ name }}", "parameters": ["name"],
        "enabled": True, "cron": "0 9 * * *", "time_zone": "Europe/Rome", "overlap": "skip", "catch_up": "none",
        "budgets": {"wall_s": None, "steps": 3, "tool_calls": None, "tokens": None}, "max_attempts": 3,
        "webhooks": [{"url": "https://x.example/h?token=1"}], "revision": 1, "next_run_at": "2999-01-01T00:00:00Z",
        "created_at": AT, "created_by": "ada", "updated_at": AT,
    }  # fmt: skip
    return made | changes


def a_preview():
    times = ["2999-01-01T09:00:00+01:00", "2999-01-02T09:00:00+01:00"]
    return {"cron": "0 9 * * *", "time_zone": "Europe/Rome", "words": "every day at 09:00", "next_runs": times}


def a_job(**changes):
    made = {
        "id": JOB_ID, "task_id": TASK_ID, "task": "greet", "model": "chat", "owner_name": "ada", "status": "running",
        "message": "Runs on agent-1.", "triggered_by": "manual", "node": "agent-1", "attempt": 1, "created_at": AT,
        "parameters": {"name": "Ann"},
    }  # fmt: skip
    return made | changes


@pytest.fixture(autouse=True)
def schedule(frontend):
    """Let the frontend answer about the schedule of any task."""
    frontend.on("GET /api/agent/schedule", json_answer(a_preview()))


def an_ended_run(**changes):
    made = {
        "id": JOB_ID, "kind": "task", "subject": "greet", "state": "completed", "message": "Completed.",
        "trigger": "manual", "owner_name": "ada", "attempt": 1, "usage": {}, "last_seq": 2, "created_at": AT,
        "finished_at": AT,
    }  # fmt: skip
    return made | changes


def stream_answer(*events):
    text = "".join(f"id: {one['seq']}\nevent: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)

    async def answer(request):
        del request
        return web.Response(text=text, content_type="text/event-stream")

    return answer


def test_tasks_are_listed_with_their_pattern_and_next_time(corral, frontend):
    frontend.on("GET /api/agent/tasks", json_answer([a_task(), a_task(name="off", enabled=False, cron="")]))
    lines = corral("tasks", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "MODEL", "STATE", "CRON", "NEXT", "DESCRIPTION"]
    assert "0 9 * * *" in lines[1]
    assert "disabled" in lines[2]
    assert json.loads(corral("tasks", "list", "--json", "--all-users").out)[0]["name"] == "greet"
    assert frontend.seen[-1].query == {"all_users": "true"}


def test_tasks_list_without_any_says_how_to_make_one(corral, frontend):
    frontend.on("GET /api/agent/tasks", json_answer([]))
    assert "corral tasks create" in corral("tasks", "list").err


def test_task_is_shown_without_the_query_of_its_webhooks(corral, frontend):
    frontend.on("GET /api/agent/tasks/greet", json_answer(a_task(cron_note="Skipped: job x has not ended.")))
    shown = corral("tasks", "show", "greet").out
    assert "https://x.example/h" in shown
    assert "token=1" not in shown
    assert "Skipped: job x" in shown
    assert "Hello {{ name }}" in shown


def test_task_is_created_from_options(corral, frontend, tmp_path):
    frontend.on("POST /api/agent/tasks", json_answer({"id": TASK_ID}, status=201))
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Hello {{ name }}")
    outcome = corral(
        "tasks", "create", "greet", "-m", "chat", "-p", f"@{prompt}", "--cron", "@daily", "--cron-param", "name=Ann=1",
        "--webhook", "https://x.example", "--label", "zone=a", "--overlap", "queue", "--disabled",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert bodies(frontend, "POST /api/agent/tasks") == [
        {
            "name": "greet",
            "model": "chat",
            "prompt": "Hello {{ name }}",
            "cron": "@daily",
            "cron_parameters": {"name": "Ann=1"},
            "overlap": "queue",
            "webhooks": [{"url": "https://x.example"}],
            "labels": {"zone": "a"},
            "enabled": False,
        }
    ]
    assert "corral tasks run greet" in outcome.err


def test_task_is_created_from_a_file_and_options_win(corral, frontend, tmp_path):
    frontend.on("POST /api/agent/tasks", json_answer({"id": TASK_ID, "warnings": ["Ignored: context."]}, status=201))
    file = tmp_path / "task.yaml"
    file.write_text("model: small\nprompt: |\n  Two\n  lines\nbudgets:\n  steps: 5\n")
    outcome = corral("tasks", "create", "greet", "-f", str(file), "-m", "chat")
    assert (outcome.code, "warning: Ignored: context." in outcome.err) == (0, True)
    [body] = bodies(frontend, "POST /api/agent/tasks")
    assert body == {"name": "greet", "model": "chat", "prompt": "Two\nlines\n", "budgets": {"steps": 5}}
    file.write_text("- a list")
    assert "one task was expected" in corral("tasks", "create", "greet", "-f", str(file)).err


def test_edit_sends_no_list_of_servers_that_the_task_has_not(corral, frontend):
    frontend.on("GET /api/agent/tasks/greet", json_answer(a_task(mcp_stdio_servers=["time"])))
    frontend.on(f"PUT /api/agent/tasks/{TASK_ID}", json_answer(a_task()))
    assert corral("tasks", "edit", "greet", "--model", "big").code == 0
    (sent,) = bodies(frontend, f"PUT /api/agent/tasks/{TASK_ID}")
    assert sent["mcp_stdio_servers"] == ["time"]
    assert "mcp_servers" not in sent


def test_edit_changes_what_is_named_and_keeps_the_rest(corral, frontend):
    frontend.on("GET /api/agent/tasks/greet", json_answer(a_task()))
    frontend.on(f"PUT /api/agent/tasks/{TASK_ID}", json_answer(a_task(model="big")))
    assert corral("tasks", "edit", "greet", "--model", "big", "--cron", "").code == 0
    [body] = bodies(frontend, f"PUT /api/agent/tasks/{TASK_ID}")
    assert (body["model"], body["cron"], body["prompt"]) == ("big", "", "Hello {{ name }}")
    assert body["webhooks"][0]["url"] == "https://x.example/h?token=1"
    assert "No option says what to change" in corral("tasks", "edit", "greet").err


@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_task_is_enabled_and_disabled(corral, frontend, verb):
    frontend.on(f"POST /api/agent/tasks/greet/{verb}", json_answer(a_task(enabled=verb == "enable")))
    assert f"{verb}d" in corral("tasks", verb, "greet").out


def test_task_is_deleted_and_its_webhook_secret_printed_alone(corral, frontend):
    frontend.on("DELETE /api/agent/tasks/greet", json_answer(None, status=204))
    assert corral("tasks", "delete", "greet").err == "Deleted task greet.\n"
    frontend.on("GET /api/agent/tasks/greet/webhook-secret", json_answer({"secret": "whsec_x"}))
    assert corral("tasks", "webhook-secret", "greet").out == "whsec_x\n"


def test_run_detached_prints_the_id_alone_and_sends_parameters_and_attachments(corral, frontend, tmp_path):
    frontend.on(EXECUTE, json_answer({"job_id": JOB_ID, "status": "pending", "url": "/x"}, status=201))
    picture = tmp_path / "a.jpg"
    picture.write_bytes(b"jpg")
    outcome = corral(
        "tasks", "run", "greet", "-P", "name=Ann", "--image", str(picture), "--attach", "https://x.example/f",
        "--detach",
    )  # fmt: skip
    assert outcome.out == f"{JOB_ID}\n"
    [body] = bodies(frontend, EXECUTE)
    assert (body["task_id"], body["parameters"], body["triggered_by"]) == ("greet", {"name": "Ann"}, "manual")
    assert body["images"] == ["data:image/jpeg;base64," + base64.b64encode(b"jpg").decode()]
    assert body["files"] == ["https://x.example/f"]
    assert corral("tasks", "run", "greet", "-P", "name").code == 2
    assert "cannot be read" in corral("tasks", "run", "greet", "--image", str(tmp_path / "none.png")).err


def test_run_prints_the_result_and_ends_with_1_unless_the_job_completed(corral, frontend):
    end = {"seq": 1, "at": AT, "type": "end", "data": {"state": "completed"}}
    frontend.on(EXECUTE, json_answer({"job_id": JOB_ID, "status": "pending", "url": "/x"}, status=201))
    frontend.on(f"GET /api/runs/{JOB_ID}/events", stream_answer(end))
    frontend.on(f"GET /api/runs/{JOB_ID}", json_answer(an_ended_run()))
    frontend.on(f"GET /api/agent/jobs/{JOB_ID}", json_answer(a_job(status="completed", result="Hi\x1b[31m\nAnn")))
    outcome = corral("tasks", "run", "greet", "-P", "name=Ann")
    assert (outcome.code, outcome.out.splitlines()[1]) == (0, "Ann")
    assert "\x1b" not in outcome.out
    frontend.on(f"GET /api/agent/jobs/{JOB_ID}", json_answer(a_job(status="failed", error="The model is away.")))
    outcome = corral("tasks", "run", "greet", "-P", "name=Ann")
    assert outcome.code == 1
    assert "The job failed. The model is away." in outcome.err
    assert f"corral jobs show {JOB_ID}" in outcome.err
    assert json.loads(corral("tasks", "run", "greet", "--json").out)["status"] == "failed"


def test_run_goes_on_after_a_lost_worker_and_prints_the_result_of_the_next_one(corral, frontend):
    lost = {"seq": 1, "at": AT, "type": "end", "data": {"state": "failed", "error_code": "runner_lost"}}
    again = {"seq": 2, "at": AT, "type": "retried", "data": {"text": "The run begins again."}}
    end = {"seq": 3, "at": AT, "type": "end", "data": {"state": "completed"}}
    frontend.on(EXECUTE, json_answer({"job_id": JOB_ID, "status": "pending", "url": "/x"}, status=201))
    frontend.on(f"GET /api/runs/{JOB_ID}/events", stream_answer(lost, again, end))
    frontend.on(f"GET /api/runs/{JOB_ID}", json_answer(an_ended_run()))

    async def job(request):
        # The trace has not been read to its last entry, so the job has not ended.
        has_ended = any(seen.path == f"/api/runs/{JOB_ID}" for seen in frontend.seen)
        return await json_answer(a_job(**({"status": "completed", "result": "Hi Ann"} if has_ended else {})))(request)

    frontend.on(f"GET /api/agent/jobs/{JOB_ID}", job)
    outcome = corral("tasks", "run", "greet", "-P", "name=Ann")
    assert (outcome.code, outcome.out) == (0, "Hi Ann\n"), outcome.err
    assert "The run begins again." in outcome.err


def test_missing_parameter_is_printed_with_its_hint(corral, frontend):
    frontend.on(EXECUTE, refusal(400, "missing_parameter", "The parameter 'name' is missing."))
    outcome = corral("tasks", "run", "greet")
    assert (outcome.code, outcome.err.splitlines()[0]) == (1, "error: The parameter 'name' is missing.")


def test_jobs_are_listed_and_filtered(corral, frontend):
    frontend.on("GET /api/agent/jobs", json_answer([a_job(status="failed", error="It broke.")]))
    lines = corral("jobs", "list", "--task", "greet", "--status", "failed").out.splitlines()
    assert lines[0].split() == ["ID", "TASK", "STATUS", "BY", "NODE", "AGE", "RESULT"]
    assert "It broke." in lines[1]
    assert frontend.seen[-1].query == {"task_id": "greet", "status": "failed", "limit": "20"}
    frontend.on("GET /api/agent/jobs", json_answer([]))
    assert "corral tasks run" in corral("jobs", "list").err


def test_job_is_found_by_the_end_of_its_id_and_shown_with_trace_and_webhooks(corral, frontend):
    traces = [{"seq": 1, "time": AT, "type": "tool_call", "tool": "files__read", "data": {"arguments": "{}"}}]
    webhooks = [{"url": "https://x.example/h", "state": "failed", "attempts": 3, "last_error": "It answered 500."}]
    frontend.on("GET /api/agent/jobs", json_answer([a_job()]))
    frontend.on(f"GET /api/agent/jobs/{JOB_ID}", json_answer(a_job(traces=traces, webhooks=webhooks, result="Hi")))
    shown = corral("jobs", "show", "2054e399").out
    assert "files__read" in shown
    assert "failed, 3 attempts: It answered 500." in shown
    assert "name=Ann" in shown


def test_job_is_watched_cancelled_and_deleted(corral, frontend):
    events = [
        {"seq": 1, "at": AT, "type": "content", "data": {"text": "hello"}},
        {"seq": 2, "at": AT, "type": "end", "data": {"state": "completed"}},
    ]
    frontend.on(f"GET /api/runs/{JOB_ID}/events", stream_answer(*events))
    frontend.on(f"GET /api/runs/{JOB_ID}", json_answer(an_ended_run()))
    watched = corral("jobs", "watch", JOB_ID).out.splitlines()
    assert [line.split()[1] for line in watched] == ["content", "end"]
    frontend.on(f"POST /api/agent/jobs/{JOB_ID}/cancel", json_answer(a_job(status="cancelled")))
    assert corral("jobs", "cancel", JOB_ID).err == "Cancelled the job of greet.\n"
    frontend.on(f"DELETE /api/agent/jobs/{JOB_ID}", json_answer(None, status=204))
    assert corral("jobs", "delete", JOB_ID).err == f"Deleted job {JOB_ID}.\n"


@pytest.mark.behaviour("TASK-17")
def test_task_shows_its_schedule_in_words_with_its_next_times(corral, frontend):
    frontend.on("GET /api/agent/tasks/greet", json_answer(a_task(cron_words="every day at 09:00")))
    shown = corral("tasks", "show", "greet").out
    assert "every day at 09:00, Europe/Rome" in shown
    assert "Next          Tue 2999-01-01 09:00 +01:00 (in " in shown
    assert "Wed 2999-01-02 09:00 +01:00" in shown
    assert frontend.seen[-1].query == {"cron": "0 9 * * *", "time_zone": "Europe/Rome"}


def test_disabled_task_shows_that_it_has_no_next_time(corral, frontend):
    frontend.on("GET /api/agent/tasks/greet", json_answer(a_task(enabled=False, next_run_at=None)))
    assert "not while it is disabled" in corral("tasks", "show", "greet").out


def test_created_task_says_when_it_runs_first(corral, frontend):
    frontend.on("POST /api/agent/tasks", json_answer({"id": TASK_ID}, status=201))
    frontend.on(f"GET /api/agent/tasks/{TASK_ID}", json_answer(a_task()))
    notice = corral("tasks", "create", "greet", "-m", "chat", "-p", "Hello", "--cron", "0 9 * * *").err
    assert "Created task greet. Next: Tue 2999-01-01 09:00 +01:00 (in " in notice
    assert "corral tasks run greet" in notice
