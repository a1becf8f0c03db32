"""Checks the messages of commits that are not on the base yet: `python -m tools.commits [REVISIONS]`.

A subject is imperative, at most 72 characters long and says what changes for whom; a change of more than 30 lines has a
body that says why. Without an argument it reads the commits that no remote branch has, and in a repository without a
remote those that came after this file. It judges words by a short list and does not understand sentences.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUBJECT_MAX = 72
BODY_FROM_LINES = 30
# Lines of these files are written by tools: they need no explanation.
GENERATED = re.compile(
    r"^(docs/reference/|docs/pictures/|requirements/.*\.txt$|ui/package-lock\.json$|ui/src/api/schema)"
)
_PREFIX = re.compile(r"^[\w/.-]+(\([^)]*\))?!?:")
_PAST_OR_GERUND = re.compile(r"(ed|ing)$")
_THIRD_PERSON = re.compile(r"[^su]s$")
# Verbs in the imperative that end like another form.
_IMPERATIVES = frozenset(
    {"Bring", "Embed", "Feed", "Need", "Ping", "Seed", "Shed", "Speed", "Spring", "String", "Bias", "Alias"}
)
_NOT_A_VERB = re.compile(
    "(A|An|And|Another|Any|As|At|Both|But|By|Each|Every|For|From|If|In|It|Its|More|New|No|None|Nobody|Nothing|Of|On|One|Only"
    "|Other|Others|Our|Some|That|The|Their|There|These|They|This|Those|Three|Two|What|When|Where|Which|Who|Why|With)"
)
_SEPARATOR = "\x1e"


@dataclass(frozen=True)
class CommitMessage:
    """A commit as the check sees it: its subject, whether it has a body, and how many lines it changes by hand."""

    revision: str
    subject: str
    has_body: bool
    changed_lines: int


def find_problems(commit: CommitMessage) -> Iterator[str]:
    """Yield one sentence for each rule that the message breaks."""
    word = commit.subject.split(" ", 1)[0]
    if len(commit.subject) > SUBJECT_MAX:
        yield f"the subject has {len(commit.subject)} characters; at most {SUBJECT_MAX} are allowed"
    if commit.subject.endswith("."):
        yield "the subject ends with a full stop"
    if _PREFIX.match(commit.subject):
        yield "the subject begins with a prefix; say in a sentence what changes for whom"
    elif not word[:1].isupper():
        yield "the subject does not begin with a capital letter"
    elif _NOT_A_VERB.fullmatch(word) or (
        word not in _IMPERATIVES and (_PAST_OR_GERUND.search(word) or _THIRD_PERSON.search(word))
    ):
        yield f"the subject begins with {word!r}, which is not a verb in the imperative"
    if commit.changed_lines > BODY_FROM_LINES and not commit.has_body:
        yield f"{commit.changed_lines} lines are changed and no body says why"


def list_commits(revisions: list[str]) -> list[CommitMessage]:
    """Read the commits of these revisions from git. Merges are left out."""
    shown = _run_git("log", "--no-merges", "--numstat", f"--format={_SEPARATOR}%h%n%s%n%x1f%b%x1f", *revisions)
    return [_parse_commit(entry) for entry in shown.split(_SEPARATOR)[1:]]


def list_unpublished() -> list[str]:
    """Return the arguments for `git log` that select the commits which are not on the base yet."""
    if _run_git("remote").strip():
        return ["HEAD", "--not", "--remotes"]
    added = _run_git("log", "--diff-filter=A", "--format=%H", "--", "tools/commits.py").split()
    return [f"{added[-1]}..HEAD"] if added else ["--max-count=1", "HEAD"]


def _parse_commit(entry: str) -> CommitMessage:
    head, body, numbers = entry.split("\x1f")
    revision, subject, *_ = head.split("\n")
    changed = 0
    for line in numbers.strip().splitlines():
        added, removed, path = line.split("\t", 2)
        if added != "-" and not GENERATED.match(path):
            changed += int(added) + int(removed)
    return CommitMessage(revision, subject, bool(body.strip()), changed)


def _run_git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def main(arguments: list[str]) -> int:
    if not Path(".git").exists() or shutil.which("git") is None:
        print("No git repository here: there are no commit messages to check.")
        return 0
    failed = 0
    for commit in list_commits(arguments or list_unpublished()):
        for problem in find_problems(commit):
            failed += 1
            print(f"{commit.revision} {commit.subject!r}: {problem}")
    if failed:
        print("See 'Commits' in CONTRIBUTING.md.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
