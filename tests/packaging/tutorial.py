"""`make dist-test`: the tutorials of agents, documents and small models as they stand on their pages, each in an empty
home, with real models and a real MCP server.

The page's commands are read from its `sh` blocks and run by one shell each, as a person would paste them. Packages come
from whatever index this machine's pip is set to.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.packaging.installed_corral import InstalledProgram
from tests.support.ports import find_free_port
from tools.source import ROOT

TUTORIALS = ROOT / "docs/tutorials"
# Downloads of an engine, a model and a dozen packages, on a machine that does other things.
BLOCK_LIMIT_S = 600.0
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Shell:
    """Runs blocks of the page in the folder of a person who has followed the README."""

    program: InstalledProgram
    folder: Path

    def run(self, block: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.program.folder / 'environment/bin'}:{self.program.environment['PATH']}"
        done = subprocess.run(
            ["sh", "-e", "-c", block],
            env=self.program.environment | {"PATH": path},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=BLOCK_LIMIT_S,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done


def read_blocks(page: str) -> list[str]:
    return _BLOCK.findall((TUTORIALS / page).read_text(encoding="utf-8"))


@pytest.fixture
def shell(installed: InstalledProgram, tmp_path: Path) -> Iterator[Shell]:
    """A shell beside a cluster that has nothing but what `corral up` makes."""
    program = installed.with_home(tmp_path)
    if os.geteuid() == 0:
        # The folder of the test is for root alone.
        program = replace(program, environment=program.environment | {"CORRAL_RUN_USER": "root"})
    program.corral("up", "--detach", "--port", str(find_free_port()))
    yield Shell(program, tmp_path)
    program.corral("down")


@pytest.mark.behaviour("AGENT-44")
def test_first_agent_of_the_tutorial_answers_with_what_its_tool_says(shell: Shell) -> None:
    for block in read_blocks("first-agent.md"):
        before = datetime.now(UTC)
        done = shell.run(block)
        if "agents chat" not in block:
            continue
        zone = "Asia/Tokyo" if "Asia/Tokyo" in block else "America/New_York"
        assert f'-> time__get_current_time {{"timezone": "{zone}"}}' in done.stderr
        shown_time = datetime.fromisoformat(done.stdout.strip())
        assert before - timedelta(seconds=1) <= shown_time <= datetime.now(UTC), done.stdout
        shown = json.loads(shell.program.corral("agents", "show", "clock", "--json"))
        assert shown["config"]["mcp_stdio_servers"] == ["time"]
    assert json.loads(shell.program.corral("agents", "list", "--json")) == []


@pytest.mark.behaviour("KNOW-22")
def test_documents_of_the_tutorial_are_found_by_their_meaning_and_named_as_sources(shell: Shell) -> None:
    for block in read_blocks("answer-from-documents.md"):
        done = shell.run(block)
        if "collections upload" in block:
            assert "pump.md is ready" in done.stderr
        if "collections search" in block:
            assert done.stdout.startswith("1. pump.md"), done.stdout
            assert "12 cm" in done.stdout.partition("2. ")[0]
        if "agents chat" in block:
            assert "pump.md" in done.stdout, done.stdout
    assert json.loads(shell.program.corral("collections", "list", "--json")) == []


@pytest.mark.behaviour("QUANT-19")
def test_model_of_the_tutorial_is_made_smaller_and_answers(shell: Shell) -> None:
    for block in read_blocks("shrink-a-model.md"):
        done = shell.run(block)
        if "corral run" in block:
            assert len(done.stdout.split()) > 3, done.stdout
        if "models show" in block:
            assert "requantised" in done.stdout
        if "models show" in block or "--type" in block:
            models = {one["name"]: one for one in json.loads(shell.program.corral("models", "list", "--json"))}
            assert models["smollm2-tiny"]["payload_bytes"] < models["smollm2-135m"]["payload_bytes"]
