"""Hooks of pytest that end a process whose test hangs after its timeout.

The timeout of a test fires once. What hangs after it, for example a fixture that waits for a program, would hang the
whole run: this process then shows the stacks of all its threads and dies, and the run names the test and goes on.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator

import pytest

# How many timeouts a test may take, and after a failure its fixtures to end.
HANG_FACTOR = 3
_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    # Tests replace the standard error output; the stacks belong on the one that the process was started with.
    config.stash[_stderr] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _arm(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> Generator[None, object, object]:
    result = yield
    # pytest itself disarms it at every failure, for the sake of debuggers; the fixtures are still to end.
    if isinstance(node, pytest.Item):
        _arm(node)
    return result


def _arm(item: pytest.Item) -> None:
    marker = item.get_closest_marker("timeout")
    limit_s = float(marker.args[0] if marker and marker.args else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit_s * HANG_FACTOR, exit=True, file=item.config.stash[_stderr])
