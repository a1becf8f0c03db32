"""The check of commit messages: which it refuses, and what it reads from a real repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.commits import CommitMessage, find_problems, list_commits, main


@pytest.mark.parametrize(
    "subject",
    [
        "Retry on another replica when the engine rejects our key",
        "Bring a test of usage in step with the rules",
        "Pass the address of the node on",
        "Focus the search field of the page",
    ],
)
def test_commit_check_accepts_an_imperative_subject(subject: str) -> None:
    assert not list(find_problems(CommitMessage("abc", subject, has_body=False, changed_lines=30)))


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("docs: rejected", "prefix"),
        ("mould: one look less", "prefix"),
        ("Fixed the queue", "imperative"),
        ("Fixes the queue", "imperative"),
        ("Fixing the queue", "imperative"),
        ("The queue is fixed", "imperative"),
        ("fix the queue", "capital"),
        ("Fix the queue.", "full stop"),
        ("Fix " + "x" * 69, "73 characters"),
    ],
)
def test_commit_check_refuses_a_subject_that_is_not_an_imperative_sentence(subject: str, reason: str) -> None:
    [problem] = find_problems(CommitMessage("abc", subject, has_body=True, changed_lines=1))
    assert reason in problem


def test_commit_check_asks_for_a_body_when_more_than_thirty_lines_change() -> None:
    [problem] = find_problems(CommitMessage("abc", "Fix the queue", has_body=False, changed_lines=31))
    assert "no body" in problem


def test_commit_check_fails_for_a_bad_commit_that_no_remote_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _git("init", "-q", "-b", "main")
    (tmp_path / "many").write_text("line\n" * 40)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "run.txt").write_text("line\n" * 40)
    _commit("many", "Add many lines\n\nBecause they are needed.")
    _git("remote", "add", "origin", str(tmp_path))
    _commit("requirements", "Lock the requirements anew")
    assert main([]) == 0
    assert [(commit.subject, commit.has_body, commit.changed_lines) for commit in list_commits(["HEAD"])] == [
        ("Lock the requirements anew", False, 0),
        ("Add many lines", True, 40),
    ]
    (tmp_path / "many").write_text("")
    _commit("many", "many: none")
    assert main([]) == 1
    assert "'many: none'" in capsys.readouterr().out
    _git("fetch", "-q")
    assert main([]) == 0


def _commit(path: str, message: str) -> None:
    _git("add", path)
    _git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", message)


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)
