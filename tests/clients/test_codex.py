"""OpenAI's Codex, as its npm package has it, against a frontend: a task with a command that it runs, to its end.

Its configuration is that of the page about clients, but for the address and the model.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.npm import NODE, NPM, install_locked
from tests.clients.stage import Stage
from tests.engines.engine_processes import Engine, running

pytestmark = pytest.mark.skipif(NODE is None or NPM is None, reason="there is no Node on this machine")

PAGE = Path(__file__).parents[2] / "docs/how-to/clients.md"
HERE = Path(__file__).with_name("codex")
MODEL = "fake-coder"
# What the command writes is in no prompt.
CALL = {"cmd": "echo $((6 * 7))1337 | tee answer.txt"}
OUTPUT = "421337"
TASK = f"Do exactly this:\ncall exec_command {json.dumps(CALL)}"
# Nothing leaves this machine: whatever else Codex looks for is not there.
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def coder(scene: Stage, tmp_path: Path) -> Iterator[Engine]:
    with running("fake", tmp_path / "engine", called=MODEL, context_size=100_000, control=True) as engine:
        scene.serve(MODEL, engine, "fake")
        yield engine


def run_codex(scene: Stage, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one task without a person, in `folder`, with a home of its own."""
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    (config,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert "http://127.0.0.1:8080" in config
    (home / "config.toml").write_text(config.replace("http://127.0.0.1:8080", scene.url), encoding="utf-8")
    program = install_locked(HERE) / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CODEX_HOME": str(home),
        "CORRAL_KEY": scene.key,
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1",
    }
    # Its own sandbox needs a kernel that allows one; the command is ours, and writes below the folder of this test.
    options = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    options += [
        "--model",
        MODEL,
        "--config",
        "analytics.enabled=false",
        "--config",
        "check_for_update_on_startup=false",
    ]
    assert NODE is not None
    return subprocess.run(
        [NODE, program, *options, TASK],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.behaviour("GW-228")
async def test_codex_runs_a_tool_and_prints_the_final_text(scene: Stage, coder: Engine, tmp_path: Path) -> None:
    done = await asyncio.to_thread(run_codex, scene, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    # The tool has run.
    assert (tmp_path / "project" / "answer.txt").read_text(encoding="utf-8").split() == [OUTPUT]
    # Its output went back to the model, which repeats what it gets, in the second request, and that was the last one.
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (final,) = [event["item"]["text"] for event in events if event.get("item", {}).get("type") == "agent_message"]
    assert final.split()[-1] == OUTPUT
    counts = (await coder.get("/_control")).json()["counts"]
    assert counts["requests"] == 2
    # What Codex counts is what the engine counted.
    assert events[-1]["type"] == "turn.completed"
    usage = events[-1]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (counts["prompt_tokens"], counts["predicted_tokens"])
