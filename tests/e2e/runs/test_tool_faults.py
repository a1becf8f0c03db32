"""Workers that are killed in the middle of tool calls, with real programs as MCP servers."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.runs.scene import LONG_S, MODEL, Runs, runs_of
from tests.runner.scene import SERVERS
from tests.support.polling import eventually

pytestmark = pytest.mark.timeout(420)


@pytest.fixture
def notes() -> Iterator[Path]:
    """Make a folder that every user can write to: programs of MCP servers run as another user."""
    folder = Path(tempfile.mkdtemp(prefix="corral-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


async def declare_tools(runs: Runs, notes: Path) -> None:
    """Declare `tests/runner/servers/tools.py`, and a task whose parameter says which tool the model calls."""
    first = runs.cluster.frontends[0]
    server = {"command": sys.executable, "args": [str(SERVERS / "tools.py")], "env": {"NOTES": str(notes)}}
    status, answer = await first.call("PUT", "/api/mcp/servers/tools", server)
    assert status == 200, answer
    task = {"name": "use", "model": MODEL, "prompt": "call tools__{{ tool }} {{ arguments }}"}
    status, answer = await first.call("POST", "/api/agent/tasks", {**task, "mcp_stdio_servers": ["tools"]})
    assert status == 201, answer


async def use_tool(runs: Runs, tool: str, arguments: str) -> str:
    body = {"tool": tool, "arguments": arguments}
    status, made = await runs.cluster.frontends[0].call("POST", "/api/agent/tasks/use/execute", body)
    assert status == 201, made
    return str(made["job_id"])


@pytest.mark.behaviour("RUNS-4")
@pytest.mark.behaviour("RUNS-14")
async def test_worker_killed_during_tool_calls_loses_the_run_with_effects_and_the_other_begins_again(
    tmp_path: Path, notes: Path
) -> None:
    async with runs_of(tmp_path, "agent-1", tokens_per_s=100.0) as runs:
        await declare_tools(runs, notes)
        risky = await use_tool(runs, "wait", '{"name": "risky"}')
        harmless = await use_tool(runs, "look", '{"name": "harmless"}')

        async def have_begun() -> bool:
            return (notes / "began-risky").exists() and (notes / "began-harmless").exists()

        await eventually(have_begun, within_s=LONG_S)
        (notes / "began-risky").unlink()
        runs.cluster.worker_settings = {"CORRAL_NODE_TYPE": "agent", "CORRAL_MAX_RUNS": "4"}
        await runs.cluster.join("agent-2")
        await runs.cluster.workers["agent-1"].kill()
        lost = await runs.become(risky, "completed", "failed", "lost", via=1)
        assert (lost["state"], lost["attempt"], lost["error_code"]) == ("lost", 1, "run_lost"), lost
        assert "tools__wait" in lost["error_text"]

        async def looks_again() -> bool:
            return (notes / "looks-harmless").read_text() == "xx"

        await eventually(looks_again, within_s=LONG_S)
        (notes / "go-harmless").touch()
        done = await runs.become(harmless, "completed", "failed", "lost", via=1)
        assert (done["state"], done["attempt"], done["node"]) == ("completed", 2, "agent-2"), done
        assert "waited for harmless" in done["content"]
        # Nobody has made the call with effects a second time.
        assert not (notes / "began-risky").exists()


@pytest.mark.behaviour("RUNS-14")
async def test_worker_killed_after_a_tool_call_with_effects_does_not_have_it_made_again(
    tmp_path: Path, notes: Path
) -> None:
    async with runs_of(tmp_path, "agent-1", tokens_per_s=10.0) as runs:
        await declare_tools(runs, notes)
        # The answer repeats the result of the tool, and takes long enough to be interrupted.
        name = "paid" + " word" * 40
        (notes / f"go-{name}").touch()
        run_id = await use_tool(runs, "wait", json.dumps({"name": name}))
        await runs.begin_to_answer(run_id)
        (notes / f"began-{name}").unlink()
        runs.cluster.worker_settings = {"CORRAL_NODE_TYPE": "agent", "CORRAL_MAX_RUNS": "4"}
        await runs.cluster.workers["agent-1"].kill()
        await runs.cluster.join("agent-2")
        done = await runs.become(run_id, "completed", "failed", "lost", via=1)
        assert (done["state"], done["attempt"], done["node"]) == ("completed", 2, "agent-2"), done
        assert f"waited for {name}" in done["content"]
        assert not (notes / f"began-{name}").exists()


async def test_runner_that_runs_a_tool_without_an_answer_is_free_after_its_budget(tmp_path: Path, notes: Path) -> None:
    async with runs_of(tmp_path, "agent-1", tokens_per_s=100.0) as runs:
        await declare_tools(runs, notes)
        task = {
            "name": "short",
            "model": MODEL,
            "prompt": "call tools__wait {{ arguments }}",
            "budgets": {"wall_s": 5},
        }
        status, answer = await runs.cluster.frontends[0].call(
            "POST", "/api/agent/tasks", {**task, "mcp_stdio_servers": ["tools"]}
        )
        assert status == 201, answer
        body = {"arguments": '{"name": "never"}'}
        _, made = await runs.cluster.frontends[0].call("POST", "/api/agent/tasks/short/execute", body)
        ended = await runs.become(made["job_id"], "completed", "failed", "lost")
        assert (ended["state"], ended["error_code"]) == ("failed", "run_timeout"), ended
        await runs.become(await runs.execute("Bob"), "completed")
