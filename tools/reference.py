"""`python -m tools.reference [--check]`: write the generated pages of `docs/reference`, or say which are stale.

Everything on them is read from the code, so they cannot say what the code does not do. Equal code gives equal pages:
no dates, no paths of this machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping

from tools import behaviours
from tools.pages import (
    api,
    calls,
    cli,
    dashboard,
    errors,
    events,
    mcp_tools,
    metrics,
    operations,
    settings,
    state_words,
    subjects,
)
from tools.source import ROOT, DocsProblem

FOLDER = "docs/reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "api.md": api.render,
    "behaviours.md": behaviours.render,
    "calls.md": calls.render,
    "cli.md": cli.render,
    "errors.md": errors.render,
    "events.md": events.render,
    "mcp-tools.md": mcp_tools.render,
    "metrics.md": metrics.render,
    "operations.md": operations.render,
    "openapi.json": api.render_openapi,
    "settings.md": settings.render,
    "subjects.md": subjects.render,
    "../grafana/corral.json": dashboard.render,
    "../../ui/src/text/stateWords.gen.ts": state_words.render,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description="The generated pages of the docs.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    options = parser.parse_args(arguments)
    problems = check() if options.check else write()
    for sentence in problems:
        print(f"error: {sentence}", file=sys.stderr)
    return 1 if problems else 0


def check(pages: Mapping[str, Callable[[], str]] = PAGES) -> list[str]:
    """Return one sentence for each page that is not what the code says now."""
    problems = []
    for name, render in pages.items():
        path = ROOT / FOLDER / name
        try:
            expected = render()
        except DocsProblem as problem:
            problems += [f"{name}: {sentence}" for sentence in problem.sentences]
            continue
        if not path.exists() or path.read_text(encoding="utf-8") != expected:
            problems.append(f"{FOLDER}/{name} is stale; `make docs` writes it again.")
    return problems


def write(pages: Mapping[str, Callable[[], str]] = PAGES) -> list[str]:
    """Write every page that can be written; return one sentence for each problem of another."""
    problems = []
    for name, render in pages.items():
        path = ROOT / FOLDER / name
        try:
            expected = render()
        except DocsProblem as problem:
            problems += [f"{name}: {sentence}" for sentence in problem.sentences]
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != expected:
            path.write_text(expected, encoding="utf-8")
            print(f"wrote {FOLDER}/{name}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
