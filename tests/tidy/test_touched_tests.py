"""Which tests `make test SINCE=…` selects for a changed file."""

from __future__ import annotations

import ast

import pytest

from tools.source import SourceModule
from tools.touched_tests import select_tests

SOURCES = {
    "tests/nodes/test_status.py": "from corral.policy.status import compute_status",
    "tests/nodes/test_drain.py": "from tests.support.nodes import join_node",
    "tests/nodes/conftest.py": "from corral.nodes import drains",
    "tests/support/nodes.py": "import corral.nodes.lifecycle",
    "tests/page/test_nodes.py": "import playwright",
}


@pytest.mark.parametrize(
    ("changed", "selected"),
    [
        ("src/corral/policy/status.py", {"tests/nodes/test_status.py"}),
        ("src/corral/nodes/lifecycle.py", {"tests/nodes/test_drain.py"}),
        ("src/corral/nodes/drains.py", {"tests/nodes"}),
        ("tests/support/nodes.py", {"tests/nodes/test_drain.py"}),
        ("tests/nodes/test_drain.py", {"tests/nodes/test_drain.py"}),
        ("ui/src/router.tsx", {"tests/page"}),
        ("docs/benchmarks.md", set()),
        ("tests/nodes/test_deleted.py", set()),
    ],
)
def test_changed_file_selects_its_nearest_tests_and_the_tidy_ones(changed: str, selected: set[str]) -> None:
    modules = [SourceModule(path, ast.parse(text)) for path, text in SOURCES.items()]
    assert set(select_tests([changed], modules)) == selected | {"tests/tidy"}
