"""`tools/page.py`: when it builds, what it says, and that there is never half a page. Node and npm are stand-ins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.page.fake import Tree, make_tree, write_built
from tests.support.polling import eventually
from tools.page import PageFolders, main
from tools.source import ROOT

HELD = "Another process is building"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = make_tree(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CI", raising=False)
    return made


def start(tree: Tree, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """In a process of its own, as `make up` has it."""
    program = "import sys; from pathlib import Path; from tools.page import PageFolders, main"
    run = f"{program}; sys.exit(main({list(arguments)!r}, PageFolders(Path({str(tree.root)!r}))))"
    environment = tree.environment() | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.Popen([sys.executable, "-c", run], stderr=subprocess.PIPE, text=True, env=environment)


def index(tree: Tree) -> str:
    return (tree.places.built / "index.html").read_text()


def test_page_is_built_once_and_again_when_its_sources_change(tree: Tree) -> None:
    assert main([], tree.places) == 0
    assert (index(tree), tree.state()["state"]) == ("the first page", "done")
    built = ["install --no-save --no-audit --no-fund --loglevel=error", "run build"]
    assert tree.called() == built
    assert main([], tree.places) == 0
    assert tree.called() == built
    tree.main.write_text("the second page")
    assert main([], tree.places) == 0
    assert (index(tree), tree.called()) == ("the second page", [*built, "run build"])


@pytest.mark.parametrize("name", ["vite.config.ts", "package-lock.json", "src/new.ts", "index.html"])
def test_change_of_a_build_input_makes_the_page_stale(tree: Tree, name: str) -> None:
    main([], tree.places)
    path = tree.places.ui / name
    path.write_text(path.read_text() + " " if path.exists() else "new")
    assert main([], tree.places) == 0
    assert tree.called().count("run build") == 2


def test_change_of_another_file_does_not_make_the_page_stale(tree: Tree) -> None:
    main([], tree.places)
    (tree.places.ui / "src" / "main.test.tsx").write_text("a test")
    (tree.places.ui / "node_modules" / "more").write_text("of npm")
    main([], tree.places)
    assert tree.called().count("run build") == 1


@pytest.mark.parametrize("lacking", ["another package", "the note"])
def test_missing_node_modules_are_installed(tree: Tree, lacking: str) -> None:
    main([], tree.places)
    if lacking == "the note":
        (tree.places.ui / "node_modules" / ".package-lock.json").unlink()
    else:
        packages = {"": {}, "node_modules/vite": {}, "node_modules/react": {}, "node_modules/other": {"optional": True}}
        (tree.places.ui / "package-lock.json").write_text(json.dumps({"packages": packages}))
    tree.main.write_text("another page")
    main([], tree.places)
    assert len([call for call in tree.called() if call.startswith("install ")]) == 2


def test_build_that_fails_says_why_and_leaves_the_page_before(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    main([], tree.places)
    tree.main.write_text("this is broken")
    assert main([], tree.places) == 1
    printed = capsys.readouterr().err
    assert "main.tsx: this is broken" in printed
    assert "error: Building the web page failed." in printed
    assert "hint: The reason is at the end of .cache/page/build.log" in printed
    assert (index(tree), tree.state()["state"]) == ("the first page", "failed")
    assert "this is broken" in tree.places.log.read_text()
    tree.main.write_text("mended")
    assert main([], tree.places) == 0
    assert index(tree) == "mended"


@pytest.mark.parametrize("version", ["v20.18.3", "v18.20.0", "gibberish", None])
def test_build_says_what_to_do_without_a_recent_node(
    tree: Tree, version: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if version is None:
        monkeypatch.setenv("PATH", str(tree.root))
    else:
        tree.node(version)
    assert main([], tree.places) == 1
    state = tree.state()
    assert state["state"] == "no_node"
    assert state["sentence"].startswith("Building the web page needs Node")
    assert "make page" in state["hint"]
    assert f"error: {state['sentence']}" in capsys.readouterr().err


def test_checks_without_node_are_left_out_aloud_but_never_in_a_ci(
    tree: Tree, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.node("v16.0.0")
    assert main(["check"], tree.places) == 0
    assert "skipped: Building the web page needs Node 20.19 or newer; v16.0.0 is installed." in capsys.readouterr().err
    monkeypatch.setenv("CI", "true")
    assert main(["check"], tree.places) == 1


def test_checks_and_tests_are_npms(tree: Tree) -> None:
    assert main(["check"], tree.places) == 0
    assert main(["test"], tree.places) == 0
    assert tree.called()[1:] == ["run --silent check", "run --silent test"]


async def test_two_builders_build_once(tree: Tree, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    os.mkfifo(hold)
    first = start(tree, HOLD=str(hold))

    async def is_building() -> bool:
        return "run build" in tree.called()

    await eventually(is_building)
    assert tree.state()["state"] == "building"
    second = start(tree, HOLD=str(hold))
    assert second.stderr is not None
    assert second.stderr.readline().startswith(HELD)
    hold.write_text("go on\n")
    printed = [process.communicate(timeout=60)[1] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], printed
    assert tree.called().count("run build") == 1
    assert index(tree) == "the first page"


async def test_ctrl_c_ends_a_builder_that_runs_beside_and_records_the_failure(tree: Tree, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    os.mkfifo(hold)
    builder = start(tree, "--beside", HOLD=str(hold))

    async def is_building() -> bool:
        return "run build" in tree.called()

    await eventually(is_building)
    builder.send_signal(signal.SIGINT)
    builder.communicate(timeout=60)
    # Whoever waited for it has gone with it, or goes now.
    descriptor = os.open(hold, os.O_RDWR | os.O_NONBLOCK)
    os.write(descriptor, b"go on\n")
    os.close(descriptor)
    assert builder.returncode == 130
    assert (tree.state()["state"], (tree.places.built / "index.html").exists()) == ("failed", False)


def _names(archive: Path) -> list[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.namelist()
    with tarfile.open(archive) as source:
        return source.getnames()


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_wheel_contains_the_built_page(tmp_path: Path, kind: str) -> None:
    project = tmp_path / "project"
    write_built(PageFolders(project).built)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        (project / name).write_text((ROOT / name).read_text())
    (project / "src" / "corral" / "__init__.py").write_text("")
    (project / "src" / "corral" / "left.pyc").write_text("ignored by git")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path / "out")],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    (archive,) = (tmp_path / "out").iterdir()
    names = _names(archive)
    for name in ("index.html", "stamp.json", "assets/index-Abc123.js", "assets/index-Abc123.js.br"):
        assert any(one.endswith(f"corral/api/page/built/{name}") for one in names), name
    assert not any(name.endswith(".pyc") for name in names)
