"""The wheel of `make dist`: what is in it, and that it can be built again."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from tools.dist import build
from tools.source import ROOT

EPOCH_S = 1_700_000_000
NEEDED = ("pyproject.toml", "README.md", "LICENSE", ".gitignore")


def _copy_checkout(folder: Path) -> Path:
    """A checkout with a page that stands in for the built one."""
    skipped = shutil.ignore_patterns("__pycache__", "built")
    shutil.copytree(ROOT / "src", folder / "src", ignore=skipped, copy_function=shutil.copyfile)
    for name in NEEDED:
        shutil.copyfile(ROOT / name, folder / name)
    page = folder / "src/corral/api/page/built"
    page.mkdir(parents=True)
    (page / "index.html").write_text("<p>the page</p>", encoding="utf-8")
    return folder


def test_wheel_and_source_archive_built_twice_have_the_same_bytes_and_the_wheel_holds_the_page(tmp_path: Path) -> None:
    one, other = _copy_checkout(tmp_path / "one"), _copy_checkout(tmp_path / "other")
    for path in sorted((other / "src").rglob("*.py")):
        path.chmod(0o600)
        os.utime(path, (1, 1))
    first = build(one, tmp_path / "dist-1", EPOCH_S)
    second = build(other, tmp_path / "dist-2", EPOCH_S)
    assert [path.suffix for path in first] == [".whl", ".gz"]
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    names = zipfile.ZipFile(first[0]).namelist()
    assert "corral/api/page/built/index.html" in names
    assert "corral/api/join/requirements.txt" in names
    assert "corral/api/join/join.sh" in names
