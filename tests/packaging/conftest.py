"""The installed program, made once for all tests of `make dist-test`."""

from __future__ import annotations

import pytest

from tests.packaging.installed_corral import InstalledProgram
from tools.dist import build, read_commit_time
from tools.source import ROOT


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledProgram:
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = build(ROOT, folder / "dist", read_commit_time(ROOT), ("wheel",))
    return InstalledProgram.install(folder, wheel)
