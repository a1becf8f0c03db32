"""Many runs at once: all are accepted, and each ends once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.runs.many import many_runs_end_once

pytestmark = pytest.mark.timeout(600)


async def test_hundred_runs_that_are_requested_at_once_are_accepted_and_each_ends_once(tmp_path: Path) -> None:
    # `make chaos` does it with a thousand.
    await many_runs_end_once(tmp_path, 100)
