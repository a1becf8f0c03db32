"""Installing, upgrading, reinstalling, rolling back and removing, on a real disk and with programs that are run."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.domain.backend import BackendSource, Build, Manifest, SourceKind
from corral.domain.errors import CorralError
from corral.domain.operation import JobPhase
from corral.worker.backends.layout import REMOVED_MAX, InstallFailed, read_folder_identity
from tests.worker.backends.scene import (
    NAME,
    Recorder,
    Scene,
    Swaps,
    assert_nothing_is_left_over,
    engine_files,
    run_engine,
)


def folder_build(folder: Path, says: str, *, version: str = "1.0", name: str = NAME, **files: Any) -> Build:
    """A backend whose source is a folder that is made here."""
    folder.mkdir(exist_ok=True)
    for path, content in engine_files(says, **files).items():
        (folder / path).write_bytes(content)
    return Build(
        name=name,
        version=version,
        source=BackendSource(kind=SourceKind.DIRECTORY, uri=str(folder)),
        manifest=Manifest(),
        meta="engine",
        alias="shared",
        gallery="test",
    )


async def test_installed_backend_is_described_runs_and_survives_a_restart(scene: Scene, tmp_path: Path) -> None:
    report = Recorder()
    build = folder_build(tmp_path / "one", "one", version="1.2")
    installed = await scene.install(build, generation=7, report=report)
    assert (installed.name, installed.version, installed.generation, installed.uri) == (
        NAME,
        "1.2",
        7,
        str(tmp_path / "one"),
    )
    assert (installed.meta, installed.alias, installed.gallery) == ("engine", "shared", "test")
    assert installed.digest.startswith("sha256:")
    assert installed.size_bytes
    assert report.phases == [
        JobPhase.RESOLVING,
        JobPhase.DOWNLOADING,
        JobPhase.CHECKING,
        JobPhase.STOPPING,
        JobPhase.COMMITTING,
    ]
    again = scene.restarted()
    await again.tidy()
    assert again.list_installed() == (installed,)
    assert await run_engine(again) == "one"
    assert again.find_runnable(NAME).manifest.environment == {"SAYS": "one"}  # type: ignore[union-attr]


async def test_having_it_already_is_enough_and_its_generation_is_written_down(scene: Scene, tmp_path: Path) -> None:
    await scene.install(folder_build(tmp_path / "one", "one"), generation=1)
    before = read_folder_identity(scene.installer.find_runnable(NAME).directory)  # type: ignore[union-attr]
    swaps, report = Swaps(), Recorder()
    again = await scene.install(
        folder_build(tmp_path / "two", "two", version="2.0"), generation=5, swaps=swaps, report=report
    )
    assert (again.version, again.generation, swaps.count, report.phases) == ("1.0", 5, 0, [])
    assert read_folder_identity(scene.installer.find_runnable(NAME).directory) == before  # type: ignore[union-attr]
    assert scene.restarted().list_installed()[0].generation == 5
    assert (await scene.install(folder_build(tmp_path / "one", "one"), generation=3)).generation == 5


@pytest.mark.behaviour("OPS-57", "OPS-72")
async def test_reinstall_of_the_same_content_replaces_every_file(scene: Scene, tmp_path: Path) -> None:
    build = folder_build(tmp_path / "one", "one")
    await scene.install(build)
    first = scene.installer.find_runnable(NAME)
    assert first is not None
    (first.directory / "engine.py").write_text("print('spoiled')\n")
    before = {path.name: read_folder_identity(path) for path in first.directory.iterdir()}
    swaps = Swaps()
    installed = await scene.install(build, generation=2, replaces=True, swaps=swaps)
    second = scene.installer.find_runnable(NAME)
    assert second is not None
    assert read_folder_identity(second.directory) != read_folder_identity(first.directory)
    assert all(read_folder_identity(second.directory / name) != identity for name, identity in before.items())
    assert await scene.says() == "one"
    assert (swaps.count, installed.generation, installed.previous_version) == (1, 2, "")
    assert not first.directory.exists()
    assert_nothing_is_left_over(scene.root, scene.installer)


@pytest.mark.behaviour("INS-11")
async def test_upgrade_can_be_rolled_back_and_forth(scene: Scene, tmp_path: Path) -> None:
    await scene.install(folder_build(tmp_path / "one", "one", version="1.0"), generation=1)
    upgraded = await scene.install(folder_build(tmp_path / "two", "two", version="2.0"), generation=2, replaces=True)
    assert (upgraded.version, upgraded.previous_version, await scene.says()) == ("2.0", "1.0", "two")
    swaps = Swaps()
    back = await scene.installer.roll_back("shared", generation=3, before_swap=swaps, progress=Recorder())
    assert (back.version, back.previous_version, back.generation) == ("1.0", "2.0", 3)
    assert (await scene.says(), swaps.count) == ("one", 1)
    forth = await scene.restarted().roll_back(NAME, generation=4, before_swap=Swaps(), progress=Recorder())
    assert forth.version == "2.0"


@pytest.mark.behaviour("INS-11")
async def test_present_and_the_previous_version_are_kept_and_no_more(scene: Scene, tmp_path: Path) -> None:
    for number in range(1, 5):
        build = folder_build(tmp_path / str(number), f"v{number}", version=f"{number}.0")
        await scene.install(build, generation=number, replaces=True)
    assert len(list((scene.root / "store").iterdir())) == 2
    await scene.installer.roll_back(NAME, generation=9, before_swap=Swaps(), progress=Recorder())
    assert await scene.says() == "v3"


@pytest.mark.behaviour("INS-11")
async def test_rollback_is_refused_without_a_previous_version(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(InstallFailed, match="not installed") as absent:
        await scene.installer.roll_back(NAME, generation=1, before_swap=Swaps(), progress=Recorder())
    assert absent.value.slug == "not_installed"
    await scene.install(folder_build(tmp_path / "one", "one"))
    swaps = Swaps()
    with pytest.raises(InstallFailed) as caught:
        await scene.installer.roll_back(NAME, generation=1, before_swap=swaps, progress=Recorder())
    assert (caught.value.slug, swaps.count) == ("nothing_to_roll_back", 0)


@pytest.mark.behaviour("OPS-96", "INS-12")
async def test_failed_check_stops_nothing_and_shows_the_engines_output(scene: Scene, tmp_path: Path) -> None:
    await scene.install(folder_build(tmp_path / "one", "one"), generation=1)
    bad = folder_build(
        tmp_path / "two", "two", version="2.0", check="import sys; print('libcuda is missing'); sys.exit(3)"
    )
    swaps = Swaps()
    with pytest.raises(InstallFailed, match="ended with 3") as caught:
        await scene.install(bad, generation=2, replaces=True, swaps=swaps)
    assert caught.value.slug == "check_failed"
    assert "libcuda is missing" in caught.value.message
    assert (swaps.count, scene.installer.list_installed()[0].version, await scene.says()) == (0, "1.0", "one")
    assert_nothing_is_left_over(scene.root, scene.installer)


@pytest.mark.behaviour("INS-12")
async def test_check_that_does_not_end_is_ended_with_everything_it_started(scene: Scene, tmp_path: Path) -> None:
    scene.options = replace(scene.options, timeouts=replace(scene.options.timeouts, check_s=0.5))
    scene.installer = scene.restarted()
    pid_file = tmp_path / "pid"
    check = (
        "import subprocess, sys, pathlib; child = subprocess.Popen([sys.executable, '-c', "
        f"'import signal; signal.pause()']); pathlib.Path('{pid_file}').write_text(str(child.pid)); child.wait()"
    )
    with pytest.raises(InstallFailed, match="did not end in time"):
        await scene.install(folder_build(tmp_path / "one", "one", check=check))
    assert not _is_running(int(pid_file.read_text()))


@pytest.mark.behaviour("INS-12")
async def test_check_that_cannot_be_run_or_has_an_unknown_word_is_refused(scene: Scene, tmp_path: Path) -> None:
    build = folder_build(tmp_path / "one", "one")
    command = ("{python}", "{dir}/engine.py")
    for check, code in ((("/nowhere/program",), "check_failed"), (("{python}", "{port}"), "bad_manifest")):
        with pytest.raises(CorralError) as caught:
            await scene.install(replace(build, manifest=Manifest(command=command, check=check)))
        assert caught.value.slug == code


@pytest.mark.behaviour("INS-12")
async def test_check_sees_what_the_engine_will_see_and_no_secret(scene: Scene, tmp_path: Path) -> None:
    around = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "CORRAL_TOKEN": "secret"}
    scene.options = replace(scene.options, environment=around)
    scene.installer = scene.restarted()
    given = {"HOME_OF_IT": "{dir}/home", "ENGINE_KEY": "{api_key}"}
    check = ("{python}", "-c", "import os, sys; sys.exit(' '.join(sorted(os.environ)) + os.environ['HOME_OF_IT'])")
    manifest = Manifest(command=("{python}",), environment=given, check=check)
    with pytest.raises(InstallFailed) as caught:
        await scene.install(replace(folder_build(tmp_path / "one", "one"), manifest=manifest))
    last_line = caught.value.message.splitlines()[-1]
    assert "CUDA_VISIBLE_DEVICES HOME_OF_IT" in last_line
    assert last_line.endswith("/tree/home")
    assert not {"ENGINE_KEY", "CORRAL_TOKEN"} & set(last_line.split())


@pytest.mark.behaviour("OPS-96", "INS-12")
async def test_process_that_cannot_be_ended_keeps_its_backend(scene: Scene, tmp_path: Path) -> None:
    await scene.install(folder_build(tmp_path / "one", "one"))

    async def survives() -> None:
        raise InstallFailed("It survives.", code="stop_failed")

    with pytest.raises(InstallFailed):
        await scene.installer.install(
            folder_build(tmp_path / "two", "two"),
            generation=2,
            replaces=True,
            before_swap=survives,
            progress=Recorder(),
        )
    assert await scene.says() == "one"
    assert_nothing_is_left_over(scene.root, scene.installer)


@pytest.mark.behaviour("OPS-96")
@pytest.mark.parametrize("at", [JobPhase.DOWNLOADING, JobPhase.CHECKING, JobPhase.STOPPING, JobPhase.COMMITTING])
async def test_cancelled_in_any_phase_the_old_or_the_new_one_runs(scene: Scene, tmp_path: Path, at: JobPhase) -> None:
    await scene.install(folder_build(tmp_path / "one", "one", version="1.0"))
    new = folder_build(tmp_path / "two", "two", version="2.0", padding=3_000_000)
    there = asyncio.Event()
    report = Recorder(phase_hook=lambda phase: there.set() if phase is at else None)
    task = asyncio.get_running_loop().create_task(scene.install(new, replaces=True, report=report, generation=2))
    await there.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = scene.restarted()
    await again.tidy()
    version = again.list_installed()[0].version
    assert await run_engine(again) == {"1.0": "one", "2.0": "two"}[version]
    assert version == "1.0" or at in (JobPhase.STOPPING, JobPhase.COMMITTING)
    assert_nothing_is_left_over(scene.root, again)


async def test_package_without_a_command_is_refused(scene: Scene, tmp_path: Path) -> None:
    build = folder_build(tmp_path / "one", "one")
    (tmp_path / "one" / "backend.yaml").unlink()
    with pytest.raises(InstallFailed, match="how to run it") as caught:
        await scene.install(build)
    assert caught.value.slug == "bad_manifest"
    for text in ("[1, 2]", "command: 3", "serves: [chat]", "{", "command: [x]\nready: {timeout_s: -1}"):
        (tmp_path / "one" / "backend.yaml").write_text(text)
        with pytest.raises(InstallFailed) as caught:
            await scene.install(build)
        assert caught.value.slug == "bad_manifest"
    assert scene.installer.list_installed() == ()


async def test_launcher_is_put_beside_the_engine(scene: Scene, launchers: Path, tmp_path: Path) -> None:
    (launchers / "hello.py").write_text("print('launched')\n")
    build = replace(
        folder_build(tmp_path / "one", "one"),
        manifest=Manifest(launcher="hello", command=("{python}", "{launcher}"), check=("{python}", "{launcher}")),
    )
    await scene.install(build)
    assert await scene.says() == "launched"
    with pytest.raises(InstallFailed, match="no launcher 'missing'"):
        await scene.install(replace(build, manifest=Manifest(launcher="missing")), replaces=True)


async def test_bundled_engine_needs_nothing_and_each_version_is_its_own(scene: Scene, launchers: Path) -> None:
    (launchers / "fake.py").write_text("print('fake')\n")
    build = Build(
        name="fake",
        version="1.0.0",
        source=BackendSource(kind=SourceKind.BUNDLED, uri="fake"),
        manifest=Manifest(launcher="fake", command=("{python}", "{launcher}")),
    )
    first = await scene.install(build)
    second = await scene.install(replace(build, version="2.0.0"), replaces=True)
    assert (second.previous_version, second.uri, await scene.says("fake")) == ("1.0.0", "bundled:fake", "fake")
    assert first.digest != second.digest
    missing = replace(build, source=BackendSource(kind=SourceKind.BUNDLED, uri="nothing"))
    with pytest.raises(InstallFailed) as caught:
        await scene.install(missing, replaces=True)
    assert caught.value.slug == "bad_manifest"


async def test_content_under_two_names_is_one_folder_until_both_are_gone(scene: Scene, launchers: Path) -> None:
    (launchers / "fake.py").write_text("print('fake')\n")
    builds = [
        Build(
            name=name,
            version="1.0.0",
            source=BackendSource(kind=SourceKind.BUNDLED, uri="fake"),
            manifest=Manifest(launcher="fake", command=("{python}", "{launcher}")),
        )
        for name in ("first", "second")
    ]
    swaps = Swaps()
    for build in builds:
        await scene.install(build, swaps=swaps)
    assert swaps.count == 2
    assert len(list((scene.root / "store").iterdir())) == 1
    await scene.installer.remove("first", generation=2, progress=Recorder())
    assert await scene.says("second") == "fake"
    await scene.installer.remove("second", generation=3, progress=Recorder())
    assert list((scene.root / "store").iterdir()) == []


async def test_reinstall_of_one_name_leaves_the_folder_of_another_alone(scene: Scene, launchers: Path) -> None:
    (launchers / "fake.py").write_text("print('fake')\n")
    builds = [
        Build(
            name=name,
            version="1.0.0",
            source=BackendSource(kind=SourceKind.BUNDLED, uri="fake"),
            manifest=Manifest(launcher="fake", command=("{python}", "{launcher}")),
        )
        for name in ("first", "second")
    ]
    for build in builds:
        await scene.install(build)
    before = read_folder_identity(scene.installer.find_runnable("second").directory)  # type: ignore[union-attr]
    await scene.install(builds[0], replaces=True)
    assert read_folder_identity(scene.installer.find_runnable("second").directory) == before  # type: ignore[union-attr]
    assert read_folder_identity(scene.installer.find_runnable("first").directory) != before  # type: ignore[union-attr]


async def test_removing_is_idempotent_and_remembered(scene: Scene, tmp_path: Path) -> None:
    build = folder_build(tmp_path / "one", "one")
    await scene.install(build, generation=1)
    for generation in (2, 3):
        await scene.installer.remove(NAME, generation=generation, progress=Recorder())
    assert (scene.installer.list_installed(), scene.installer.list_removed()) == ((), {NAME: 3})
    assert list((scene.root / "store").iterdir()) == []
    again = scene.restarted()
    assert (again.list_removed(), again.resolve(NAME), again.find_runnable(NAME)) == ({NAME: 3}, None, None)
    await scene.install(build, generation=4)
    assert (scene.installer.list_removed(), scene.restarted().list_removed()) == ({}, {})


async def test_removals_are_remembered_up_to_a_limit_newest_first(scene: Scene) -> None:
    await scene.installer.tidy()
    for number in range(REMOVED_MAX + 5):
        scene.installer._records._removed[f"engine-{number}"] = number
    await scene.installer.remove("last", generation=9, progress=Recorder())
    removed = scene.restarted().list_removed()
    assert len(removed) == REMOVED_MAX
    assert "last" in removed
    assert "engine-0" not in removed


async def test_name_that_several_share_means_none_of_them(scene: Scene, tmp_path: Path) -> None:
    await scene.install(folder_build(tmp_path / "one", "one", name="cpu-engine"))
    assert scene.installer.resolve("engine") == "cpu-engine"
    assert scene.installer.resolve("test@CPU-Engine") == "cpu-engine"
    await scene.install(folder_build(tmp_path / "two", "two", name="cuda-engine"))
    assert scene.installer.resolve("engine") is None
    assert scene.installer.resolve("shared") is None
    assert scene.installer.resolve("cuda-engine") == "cuda-engine"
    assert scene.installer.resolve("") is None
    with pytest.raises(InstallFailed, match="cpu-engine, cuda-engine"):
        await scene.installer.remove("shared", generation=9, progress=Recorder())
    assert len(scene.installer.list_installed()) == 2


async def test_backend_name_maps_to_a_file_of_its_own_inside_the_folder(scene: Scene, tmp_path: Path) -> None:
    for name in ("../escape", "a/b", "..", "ünï", "a%2Fb"):
        await scene.install(folder_build(tmp_path / "one", "one", name=name))
    assert {backend.name for backend in scene.restarted().list_installed()} == {
        "../escape",
        "a/b",
        "..",
        "ünï",
        "a%2Fb",
    }
    assert {path.parent for path in tmp_path.rglob("*.json") if "names" in path.parts} == {scene.root / "names"}
    for name in ("", "x" * 300):
        with pytest.raises(InstallFailed, match="cannot be a backend"):
            await scene.install(folder_build(tmp_path / "one", "one", name=name))


async def test_damaged_record_takes_nothing_else_with_it(scene: Scene, tmp_path: Path) -> None:
    await scene.install(folder_build(tmp_path / "one", "one", name="first"))
    await scene.install(folder_build(tmp_path / "two", "two", name="second"))
    (scene.root / "names" / "first.json").write_text('{"format": 1, "na')
    (scene.root / "removed.json").write_text("[")
    again = scene.restarted()
    await again.tidy()
    assert [backend.name for backend in again.list_installed()] == ["second"]
    assert again.list_removed() == {}
    assert (scene.root / "names" / "first.json.damaged").exists()
    assert_nothing_is_left_over(scene.root, again)


async def test_deleted_folder_is_not_reported_and_the_previous_one_is_used(scene: Scene, tmp_path: Path) -> None:
    await scene.install(folder_build(tmp_path / "one", "one", version="1.0"))
    await scene.install(folder_build(tmp_path / "two", "two", version="2.0"), replaces=True)
    current = scene.installer.find_runnable(NAME)
    assert current is not None
    (current.directory / "backend.json").unlink()
    assert scene.installer.list_installed() == ()
    again = scene.restarted()
    await again.tidy()
    assert [backend.version for backend in again.list_installed()] == ["1.0"]
    assert await run_engine(again) == "one"
    for folder in (scene.root / "store").iterdir():
        (folder / "backend.json").unlink()
    last = scene.restarted()
    await last.tidy()
    assert last.list_installed() == ()
    assert_nothing_is_left_over(scene.root, last)


@pytest.mark.behaviour("OPS-97")
async def test_record_in_the_store_says_what_it_is(scene: Scene, tmp_path: Path) -> None:
    installed = await scene.install(folder_build(tmp_path / "one", "one"))
    found = scene.installer.find_runnable(NAME)
    assert found is not None
    record = json.loads((found.directory / "backend.json").read_text())
    assert (record["digest"], record["uri"]) == (installed.digest, str(tmp_path / "one"))
    assert record["build"]["name"] == NAME
    assert record["size_bytes"] == installed.size_bytes


async def test_digest_of_a_folder_is_that_of_its_content(scene: Scene, tmp_path: Path) -> None:
    first = await scene.install(folder_build(tmp_path / "one", "one"))
    same = await scene.install(folder_build(tmp_path / "copy", "one"), replaces=True)
    (tmp_path / "copy" / "engine.py").chmod(0o755)
    executable = await scene.install(folder_build(tmp_path / "copy", "one"), replaces=True)
    other = await scene.install(folder_build(tmp_path / "two", "two"), replaces=True)
    assert first.digest == same.digest
    assert len({first.digest, executable.digest, other.digest}) == 3
    for uri in (str(tmp_path / "missing"), "relative", str(tmp_path)):
        with pytest.raises(InstallFailed):
            await scene.install(
                replace(
                    folder_build(tmp_path / "one", "one"), source=BackendSource(kind=SourceKind.DIRECTORY, uri=uri)
                ),
                replaces=True,
            )


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (Manifest(command=("{dir}/bin/server",)), "starts {dir}/bin/server, and there is no such program"),
        (Manifest(command=("{dir}/plain.txt",)), "starts {dir}/plain.txt, and there is no such program"),
        (Manifest(command=("no-such-program-anywhere",)), "starts no-such-program-anywhere"),
        (Manifest(command=("{python}", "{dir}/gone.py")), "starts {dir}/gone.py"),
        (Manifest(launcher="fake"), "the manifest has no command"),
        (Manifest(command=("{python}",), options={"a": ("--a",)}), "has options, and no {options} in its command"),
    ],
)
async def test_install_refuses_a_folder_whose_program_is_not_there(
    scene: Scene, tmp_path: Path, manifest: Manifest, sentence: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "plain.txt").write_text("Nothing to run.")
    source = BackendSource(kind=SourceKind.DIRECTORY, uri=str(tmp_path / "folder"))
    with pytest.raises(InstallFailed) as refused:
        await scene.install(Build(name=NAME, version="1", source=source, manifest=manifest))
    assert sentence in refused.value.message
    assert refused.value.slug == "bad_manifest"
    assert scene.installer.list_installed() == ()


async def test_install_refuses_an_empty_folder(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "folder" / "bin").mkdir(parents=True)
    source = BackendSource(kind=SourceKind.DIRECTORY, uri=str(tmp_path / "folder"))
    manifest = Manifest(command=("true", "{options}"))
    with pytest.raises(InstallFailed, match="holds no file"):
        await scene.install(Build(name=NAME, version="1", source=source, manifest=manifest))


async def test_system_backend_is_listed_runs_and_is_neither_removed_nor_rolled_back(
    scene: Scene, tmp_path: Path
) -> None:
    system = tmp_path / "system"
    (system / "cpu-engine").mkdir(parents=True)
    for path, content in engine_files("system").items():
        (system / "cpu-engine" / path).write_bytes(content)
    with (system / "cpu-engine" / "backend.yaml").open("a") as file:
        file.write("version: '3.0'\nmeta: engine\nalias: shared\n")
    (system / "broken").mkdir()
    (system / "broken" / "backend.yaml").write_text("- no")
    scene.options = replace(scene.options, system_root=system)
    scene.installer = scene.restarted()
    (listed,) = scene.installer.list_installed()
    assert (listed.name, listed.version, listed.is_system) == (NAME, "3.0", True)
    assert scene.installer.resolve("engine") == NAME
    assert await scene.says() == "system"
    assert (await scene.install(folder_build(tmp_path / "one", "one"), generation=2)).is_system
    for act in (
        scene.installer.remove(NAME, generation=3, progress=Recorder()),
        scene.installer.roll_back(NAME, generation=3, before_swap=Swaps(), progress=Recorder()),
    ):
        with pytest.raises(InstallFailed) as caught:
            await act
        assert caught.value.slug == "system_backend"

    own = await scene.install(folder_build(tmp_path / "one", "one"), generation=4, replaces=True)
    assert (own.is_system, await scene.says()) == (False, "one")
    await scene.installer.remove(NAME, generation=5, progress=Recorder())
    assert await scene.says() == "system"


async def test_backends_are_installed_beside_one_another(scene: Scene, tmp_path: Path) -> None:
    builds = [folder_build(tmp_path / str(n), f"says {n}", name=f"engine-{n}", padding=200_000) for n in range(6)]
    async with asyncio.TaskGroup() as group:
        for build in builds:
            group.create_task(scene.install(build, replaces=True))
    for number in range(6):
        assert await scene.says(f"engine-{number}") == f"says {number}"
    assert_nothing_is_left_over(scene.root, scene.installer)
    assert len(scene.restarted().list_installed()) == 6


@pytest.fixture
def launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for the launchers of this version of Corral."""
    folder = tmp_path / "engines" / "launchers"
    folder.mkdir(parents=True)
    monkeypatch.setattr("corral.engines._HERE", tmp_path / "engines")
    return folder


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
