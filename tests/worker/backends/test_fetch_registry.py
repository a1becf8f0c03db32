"""Fetching a registry for the tests never stands in anybody's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import fetch_registry


def test_registry_without_packages_is_reported_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fetch_registry, "FOLDER", tmp_path / "registry")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch_registry.find_registry() is None
    assert fetch_registry.main() == 0
    assert "will be skipped" in capsys.readouterr().err


def test_package_manager_failure_is_printed_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("apt-get", "dpkg"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'one' >&2\necho 'E: no network' >&2\nexit 100\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(fetch_registry, "FOLDER", tmp_path / "registry")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(fetch_registry, "find_registry", lambda: None)
    assert fetch_registry.main() == 0
    assert "(E: no network)" in capsys.readouterr().err
    assert not (tmp_path / "registry").exists()


def test_existing_registry_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_registry, "FOLDER", tmp_path / "registry")
    program = tmp_path / "registry" / "usr" / "bin" / fetch_registry.PACKAGE
    program.parent.mkdir(parents=True)
    program.write_text("")
    assert fetch_registry.find_registry() == str(program)
    assert fetch_registry.main() == 0
