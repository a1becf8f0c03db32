"""The built-in gallery, as data: nothing is installed here."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from corral.domain.backend import BackendVersion, Build, GalleryEntry, Manifest, SourceKind
from corral.engines import list_gallery_files, read_launcher
from corral.policy.gallery import build_from_json, build_to_json
from tests.engines.engine_processes import entries
from tools.source import ROOT

VERSIONS = [
    pytest.param(entry, version, id=f"{entry.name}-{version.version}")
    for entry in entries().values()
    for version in entry.versions
]
LAUNCHERS = sorted((ROOT / "src/corral/engines/launchers").glob("[a-z]*.py"))
SERVER = ROOT / "src/corral/engines/launchers/_engine_server.py"
PLACEHOLDERS = {"python", "launcher", "host", "port", "model", "name", "threads", "api_key", "options", "dir"}


@pytest.mark.parametrize(("entry", "version"), VERSIONS)
def test_version_survives_the_way_to_the_worker(entry: GalleryEntry, version: BackendVersion):
    build = Build(name=entry.name, version=version.version, source=version.source, manifest=version.manifest)
    assert build_from_json(build_to_json(build)) == build


@pytest.mark.parametrize(("entry", "version"), VERSIONS)
def test_every_package_is_pinned_with_hashes_and_no_index_is_named(entry: GalleryEntry, version: BackendVersion):
    if version.source.kind is SourceKind.BUNDLED:
        assert read_launcher(version.source.uri) is not None
        return
    assert version.source.size_bytes
    if version.source.kind is SourceKind.URL:
        assert version.source.sha256
        assert version.source.uri.startswith("npm:")
        return
    assert version.source.python
    pinned = re.compile(r"[a-z0-9-]+==[\w.+!]+( ; [\w\s.'=<>!*()]+)?( --hash=sha256:[0-9a-f]{64})+")
    assert [line for line in version.source.requirements if not pinned.fullmatch(line)] == []


@pytest.mark.parametrize(("entry", "version"), VERSIONS)
def test_manifest_is_complete(entry: GalleryEntry, version: BackendVersion):
    manifest = version.manifest
    assert manifest.serves
    assert manifest.formats
    assert manifest.check
    # A program of a run answers no requests.
    is_program = manifest.serves in (("quantize",), ("convert",), ("fine_tune",))
    assert is_program or {"path", "running", "waiting"} <= set(manifest.metrics)
    assert "{options}" in manifest.command
    assert all(len(parts) == 1 and parts[0].endswith("={value}") for parts in manifest.options.values())
    used = set(re.findall(r"\{(\w+)\}", " ".join([*manifest.command, *manifest.environment.values()])))
    assert used <= PLACEHOLDERS
    # The key is on no command line: every user of the machine reads those.
    assert "{api_key}" not in " ".join(manifest.command)
    assert (manifest.api_key == "environment") == ("{api_key}" in manifest.environment.values())


@pytest.mark.parametrize(("entry", "version"), VERSIONS)
def test_launcher_knows_every_flag_of_its_manifest(entry: GalleryEntry, version: BackendVersion):
    if not version.manifest.launcher:
        assert entry.is_unverified
        return
    launcher = read_launcher(version.manifest.launcher)
    assert launcher is not None
    known = set(re.findall(r'"(--[a-z-]+)"', launcher))
    if version.manifest.launcher == "fake":
        completed = subprocess.run(
            [sys.executable, "-I", "-c", launcher, "--help"], capture_output=True, text=True, check=True
        )
        known = set(re.findall(r"--[a-z-]+", completed.stdout))
    assert flags_of(version.manifest) - known == set()


def flags_of(manifest: Manifest) -> set[str]:
    parts = [*manifest.command, *(part for option in manifest.options.values() for part in option), *manifest.check]
    return {part.partition("=")[0] for part in parts if part.startswith("--")}


def test_meta_points_to_entries_that_are_there():
    found = entries()
    for meta in (entry for entry in found.values() if entry.is_meta):
        for name in meta.capabilities.values():
            assert found[name].versions, name
            assert found[name].alias == meta.name


@pytest.mark.behaviour("ENG-3")
def test_gallery_marks_unverified_backends_and_states_their_licences():
    found = entries()
    assert {entry.name for entry in found.values() if entry.is_unverified} == {
        "vllm",
        "cuda13-vllm",
        "sglang",
        "cuda13-sglang",
    }
    assert [entry.name for entry in found.values() if not entry.license or not entry.description] == []
    assert "GPL" in found["piper"].description
    assert found["piper"].license.startswith("GPL-3.0")


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=lambda path: path.stem)
def test_launcher_is_one_file_that_runs_isolated_and_imports_nothing_of_corral(launcher: Path, tmp_path: Path):
    program = read_launcher(launcher.stem)
    assert program is not None
    imported = set()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add((node.module or "").partition(".")[0])
    assert "corral" not in imported
    written = tmp_path / "launcher.py"
    written.write_text(program, encoding="utf-8")
    command = [sys.executable, "-I", str(written), "--help"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "--api-key-env" in shown.stdout or "--watch-stdin" in shown.stdout


@pytest.mark.parametrize("name", ["", "__init__", "../__init__", "nobody"])
def test_unknown_launcher_is_not_found(name: str):
    assert read_launcher(name) is None


def test_launchers_share_one_server_and_define_no_name_of_it_again():
    using = set()
    for launcher in LAUNCHERS:
        program = read_launcher(launcher.stem)
        assert program is not None
        if f"\n{SERVER.read_text(encoding='utf-8').partition('__future__ import annotations')[2].strip()}\n" in program:
            using.add(launcher.stem)
        defined = [node.name for node in ast.parse(program).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        assigned = [
            target.id
            for node in ast.parse(program).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        names = defined + assigned
        assert sorted(names) == sorted(set(names)), launcher.stem
    assert using == {"fake", "faster_whisper", "onnx_embeddings", "piper"}


def test_launchers_and_gallery_are_in_the_wheel(tmp_path: Path):
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        inside = set(opened.namelist())
    ours = [*list_gallery_files(), *LAUNCHERS, SERVER]
    assert {path.relative_to(ROOT / "src").as_posix() for path in ours} <= inside
