"""What the page about clients says to copy is run as it stands, but for the address and the key."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.npm import NODE, NPM, install_locked
from tests.clients.stage import Stage
from tests.clients.test_node import HERE

PAGE = Path(__file__).parents[2] / "docs/how-to/clients.md"
# What is TOML configures Codex, and test_codex.py runs that.
SNIPPETS = re.findall(r"^```(?!toml)(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
PROGRAMS = {
    "python": ("snippet.py", [sys.executable]),
    "js": ("snippet.mjs", [NODE or ""]),
    "sh": ("snippet.sh", ["sh"]),
}


def test_page_has_snippets_in_every_language() -> None:
    assert {language for language, _ in SNIPPETS} == set(PROGRAMS)


@pytest.mark.behaviour("GW-99")
@pytest.mark.parametrize(("language", "text"), SNIPPETS, ids=[str(number) for number in range(len(SNIPPETS))])
def test_snippet_runs_and_says_something(
    scene: Stage, tmp_path: Path, language: str, text: str, request: pytest.FixtureRequest
) -> None:
    for fixture in ("piper", "whisper") if "audio" in text else ("smol",):
        request.getfixturevalue(fixture)
    if language == "js":
        if NODE is None or NPM is None:
            pytest.skip("there is no Node on this machine")
        (tmp_path / "node_modules").symlink_to(install_locked(HERE) / "node_modules")
    if language == "sh" and shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    name, command = PROGRAMS[language]
    assert "http://127.0.0.1:8080" in text
    written = text.replace("http://127.0.0.1:8080", scene.url).replace("ck_…", scene.key)
    (tmp_path / name).write_text(written, encoding="utf-8")
    done = subprocess.run([*command, name], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
