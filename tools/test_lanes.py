"""Runs the tests in lanes: `python -m tools.test_lanes [--fast | --since REVISION] [PYTEST ARGUMENTS]`.

The tests of the page have a process of their own, because the browser's plain interface keeps an event loop open in it;
the simulator has one because it replaces the loop. Everything else is shared out over several processes. Each line of
output carries the name of its suite. The last lines name every test that failed and sum up all suites, so that the end
of a log is enough to know what broke.
`--fast` takes the tests that start no server, `--since` those that a change touches (`tools/touched_tests.py`).

Guarantee: it ends. A suite that takes longer than `SUITE_LIMIT_S` is ended and counts as failed. It runs nothing twice.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.touched_tests import list_touched_tests

# Several times what the slowest suite takes on two cores. CI must have time left to show what hung.
SUITE_LIMIT_S = 4200.0
END_LIMIT_S = 30.0
LINE_LIMIT_BYTES = 2**20
# pytest's exit code when nothing was selected, as with `-k` for a test of another suite.
NO_TESTS = 5
_OUTCOMES = ("passed", "failed", "error", "skipped")
_COUNT = re.compile(r"(\d+) (passed|failed|error|skipped)s?\b")
_FAILURE = re.compile(r"(?:FAILED|ERROR) \S+\.py")


@dataclass(frozen=True)
class Suite:
    """Names the tests that one run of pytest takes, by the arguments that select them."""

    name: str
    arguments: tuple[str, ...]


@dataclass
class SuiteResult:
    """Holds how one suite ended: pytest's exit code, or None if it was ended, its counts and its lines of failures."""

    suite: Suite
    code: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def is_green(self) -> bool:
        return self.code in (0, NO_TESTS)


# With the other lanes five processes, also on two cores: most of a test is waiting for programs that it has started.
_SPREAD = ("-n", "3", "--dist", "worksteal")
LANES: tuple[tuple[Suite, ...], ...] = (
    (Suite("page", ("tests/page",)),),
    (Suite("simulation", ("tests/simulation",)),),
    (
        Suite(
            "rest",
            ("tests", "--ignore=tests/page", "--ignore=tests/simulation", *_SPREAD),
        ),
    ),
)


# Folders whose tests start no server and no program, and finish in seconds.
FAST_FOLDERS = ("tests/unit", "tests/tidy")


def choose_lanes(arguments: Sequence[str]) -> tuple[Sequence[Sequence[Suite]], list[str]]:
    """Return the lanes that the options at the beginning of the arguments select, and the arguments for pytest."""
    match list(arguments):
        case ["--fast", *rest]:
            return ((Suite("fast", (*FAST_FOLDERS, *_SPREAD)),),), rest
        case ["--since", revision, *rest]:
            return ((Suite("touched", (*list_touched_tests(revision), *_SPREAD)),),), rest
        case rest:
            return LANES, rest


async def run_lanes(lanes: Sequence[Sequence[Suite]], more: Sequence[str]) -> list[SuiteResult]:
    """Run all lanes at the same time and the suites of each one after the other."""
    results = await asyncio.gather(*(_run_lane(lane, more) for lane in lanes))
    return [result for lane in results for result in lane]


async def _run_lane(lane: Sequence[Suite], more: Sequence[str]) -> list[SuiteResult]:
    return [await _run_suite(suite, more) for suite in lane]


async def _run_suite(suite: Suite, more: Sequence[str]) -> SuiteResult:
    result = SuiteResult(suite)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", *suite.arguments, *more),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=LINE_LIMIT_BYTES,
        start_new_session=True,
        env=_make_environment(),
    )
    try:
        async with asyncio.timeout(SUITE_LIMIT_S):
            await _relay_output(process, result)
            result.code = await process.wait()
    except TimeoutError:
        print(f"{suite.name:<10} | has not ended within {SUITE_LIMIT_S:.0f} s and is ended now", flush=True)
    finally:
        await _end_session(process)
    return result


def _make_environment() -> dict[str, str]:
    """Return our environment, in which Python may keep bytecode: each process would compile 500 modules of tests, with
    pytest's asserts in them, again and again. It takes 10 s."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


async def _relay_output(process: asyncio.subprocess.Process, result: SuiteResult) -> None:
    assert process.stdout is not None, "the output is a pipe"
    async for line in process.stdout:
        text = line.decode(errors="replace").rstrip("\n")
        print(f"{result.suite.name:<10} | {text}", flush=True)
        if _FAILURE.match(text):
            result.failures.append(text)
        if text.startswith("==") and (found := _COUNT.findall(text)):
            result.counts = Counter({outcome: int(number) for number, outcome in found})


async def _end_session(process: asyncio.subprocess.Process) -> None:
    """End a pytest that still runs, together with its worker processes; both belong to its process group."""
    if process.returncode is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(END_LIMIT_S):
            await process.wait()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def main(arguments: Sequence[str]) -> int:
    """Run the selected tests, print their counts, and return 0 if every suite is green and a test has run."""
    lanes, more = choose_lanes(arguments)
    results = asyncio.run(run_lanes(lanes, more))
    for result in results:
        state = "green" if result.is_green else f"FAILED (exit code {result.code})"
        for line in result.failures:
            print(f"{result.suite.name:<10} | {line}", flush=True)
        print(f"{result.suite.name:<10} | {state}: {_describe(result.counts)}", flush=True)
    total = sum((result.counts for result in results), Counter[str]())
    failed = total["failed"] + total["error"]
    print(f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped", flush=True)
    return 0 if all(result.is_green for result in results) and total["passed"] else 1


def _describe(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in _OUTCOMES if counts[outcome]) or "no tests"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
