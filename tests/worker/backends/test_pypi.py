"""Engines from a package index: one on the loopback that misbehaves, and the real one that this machine uses."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from corral.domain.backend import BackendSource, Build, Manifest, SourceKind
from corral.domain.errors import CorralError
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.package_index import make_uv_environment
from corral.worker.backends.sources.staging_source import InstallerOptions
from tests.worker.backends import server as faulty
from tests.worker.backends.scene import (
    NAME,
    PATIENCE,
    Recorder,
    Scene,
    Swaps,
    assert_nothing_is_left_over,
    plain_environment,
    pypi_build,
    sha256,
    wheel_of,
)
from tests.worker.backends.server import File, FileServer

# Small, made of Python only, and unchanged for years.
SMALL = "six==1.16.0"
SMALL_HASH = "8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254"
REAL_ENGINE = "xllamacpp==2026.10.11549"


class Index:
    """A package index made of wheels."""

    def __init__(self, files: FileServer) -> None:
        self._files = files
        self._pages: dict[str, list[str]] = {}

    @property
    def url(self) -> str:
        return f"{self._files.url}/simple/"

    def add(self, name: str, version: str, says: str, *, tag: str = "py3-none-any", needs: tuple[str, ...] = ()) -> str:
        """The sha256 of the wheel."""
        wheel = wheel_of(name, version, says, tag=tag, needs=needs)
        metadata = "".join(f"Requires-Dist: {need}\n" for need in needs)
        self.put(name, f"{name}-{version}-{tag}.whl", wheel)
        path = f"/files/{name}-{version}-{tag}.whl.metadata"
        self._files.put(path, f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}".encode())
        return sha256(wheel)

    def put(self, name: str, file_name: str, content: bytes) -> None:
        self._files.put(f"/files/{file_name}", content, etag=f'"{sha256(content)[:8]}"')
        described = ' data-core-metadata="true"' if file_name.endswith(".whl") else ""
        link = f'<a href="/files/{file_name}#sha256={sha256(content)}"{described}>{file_name}</a>'
        self._pages.setdefault(name, []).append(link)
        page = f"<!DOCTYPE html><html><body>{''.join(self._pages[name])}</body></html>"
        self._files.put(f"/simple/{name}/", page.encode(), content_type="text/html")

    def wheel(self, file_name: str) -> File:
        return self._files.files[f"/files/{file_name}"]


@pytest.fixture
def index(files: FileServer, scene: Scene) -> Index:
    made = Index(files)
    use(scene, plain_environment() | {"UV_DEFAULT_INDEX": made.url, "UV_HTTP_RETRIES": "0"})
    return made


def use(scene: Scene, environment: dict[str, str]) -> None:
    scene.options = replace(scene.options, environment=environment)
    scene.installer = scene.restarted()


async def test_requirements_and_what_they_need_go_into_one_environment(scene: Scene, index: Index) -> None:
    index.add("engine", "1.0", "one", needs=("helper>=2",))
    index.add("helper", "2.1", "help")
    index.add("helper", "1.0", "too old")
    report = Recorder()
    installed = await scene.install(pypi_build("engine==1.0", module="engine"), report=report)
    assert await scene.says() == "one"
    assert installed.uri.endswith("/files/engine-1.0-py3-none-any.whl")
    total = sum(len(index.wheel(f"{name}-py3-none-any.whl").body) for name in ("engine-1.0", "helper-2.1"))
    assert report.bytes[-1][:2] == (total, total)
    counts = [current for current, _, _ in report.bytes]
    assert counts == sorted(counts)
    assert scene.partials == []
    assert_nothing_is_left_over(scene.root, scene.installer)


async def test_download_in_the_middle_of_many_goes_on_where_it_stopped(scene: Scene, index: Index) -> None:
    """The first package is whole, the second is cut off; the next attempt fetches the rest of the second only."""
    index.add("engine", "1.0", "one" * 20_000, needs=("helper",))
    index.add("helper", "2.1", "help" * 100)
    first, second = index.wheel("engine-1.0-py3-none-any.whl"), index.wheel("helper-2.1-py3-none-any.whl")
    second.faults = [faulty.cut_after(100), *[faulty.cut_after(0)] * 3]
    build = pypi_build("engine==1.0", module="engine")
    with pytest.raises(SourceFailed):
        await scene.install(build)
    assert len(scene.partials) == 2
    first.ranges, second.faults = [], []
    await scene.install(build)
    assert first.ranges == []
    assert second.ranges[-1] == "bytes=100-"
    assert len(await scene.says()) == 60_000


async def test_installed_set_of_wheels_is_recognised_before_anything_is_fetched(scene: Scene, index: Index) -> None:
    index.add("engine", "1.0", "one")
    await scene.install(pypi_build("engine==1.0", module="engine", name="first"))
    requests_before = len(index.wheel("engine-1.0-py3-none-any.whl").ranges)
    swaps = Swaps()
    await scene.install(pypi_build("engine==1.0", module="engine", name="second"), swaps=swaps)
    assert len(index.wheel("engine-1.0-py3-none-any.whl").ranges) == requests_before
    assert (swaps.count, await scene.says("second")) == (1, "one")
    assert len(list((scene.root / "store").iterdir())) == 1


@pytest.mark.behaviour("INS-33")
async def test_promised_hashes_are_held_to(scene: Scene, index: Index) -> None:
    digest = index.add("engine", "1.0", "one", needs=("helper",))
    helper = index.add("helper", "2.1", "help")
    wrong, partly, options = (
        (f"engine==1.0 --hash=sha256:{'0' * 64}", f"helper==2.1 --hash=sha256:{helper}"),
        (f"engine==1.0 --hash=sha256:{digest}", "helper==2.1"),
        (f"--index-url {index.url}", "engine==1.0"),
    )
    for requirements, code in ((wrong, "digest_mismatch"), (partly, "digest_mismatch"), (options, "bad_manifest")):
        with pytest.raises(TransferFailed) as caught:
            await scene.install(pypi_build(*requirements, module="engine"))
        assert caught.value.slug == code
    for file_name in ("engine-1.0-py3-none-any.whl", "helper-2.1-py3-none-any.whl"):
        assert index.wheel(file_name).sent == 0
    scene.options = replace(scene.options, require_integrity=True)
    scene.installer = scene.restarted()
    # As a requirements file has them, with continued lines.
    lines = ("engine==1.0 \\", f"--hash=sha256:{'1' * 64} \\", f"--hash=sha256:{digest}", "# and", "helper==2.1 \\")
    await scene.install(pypi_build(*lines, f"    --hash=sha256:{helper}", module="engine"))
    assert await scene.says() == "one"
    for file_name in ("engine-1.0-py3-none-any.whl", "helper-2.1-py3-none-any.whl"):
        assert index.wheel(file_name).sent == len(index.wheel(file_name).body)


@pytest.mark.behaviour("INS-33")
async def test_file_that_the_index_describes_wrongly_is_refused(scene: Scene, index: Index) -> None:
    index.add("engine", "1.0", "one")
    wheel = index.wheel("engine-1.0-py3-none-any.whl")
    wheel.body = wheel_of("engine", "1.0", "someone else's")
    with pytest.raises(TransferFailed) as caught:
        await scene.install(pypi_build("engine==1.0", module="engine"))
    assert caught.value.slug == "digest_mismatch"
    assert scene.partials == []


async def test_unresolvable_requirements_error_gives_the_reason(scene: Scene, index: Index, files: FileServer) -> None:
    index.add("engine", "1.0", "one")
    index.add("foreign", "1.0", "x", tag="cp39-cp39-win_amd64")
    index.put("source", "source-1.0.tar.gz", b"not looked at")
    files.put("/simple/broken/", b"", faults=[faulty.status(500)], is_always_faulty=True)
    cases: list[tuple[str, str, bool]] = [
        ("engine==9.9", "not_found", False),
        ("nothing==1.0", "not_found", False),
        ("foreign==1.0", "unsupported", False),
        ("source==1.0", "unsupported", False),
        ("broken==1.0", "source_unavailable", True),
        ("not a requirement!", "bad_manifest", False),
    ]
    for requirement, code, is_retryable in cases:
        with pytest.raises(CorralError) as caught:
            await scene.install(pypi_build(requirement, module="engine"))
        assert (requirement, caught.value.slug, caught.value.retryable) == (requirement, code, is_retryable)
    assert_nothing_is_left_over(scene.root, scene.installer)


async def test_wheel_for_this_machine_is_chosen(scene: Scene, index: Index) -> None:
    mine = str(next(iter(sys_tags())))
    index.add("engine", "1.0", "anybody's")
    index.add("engine", "1.0", "mine", tag=mine)
    index.add("engine", "1.0", "somebody's", tag="cp39-cp39-win_amd64")
    await scene.install(pypi_build("engine==1.0", module="engine"))
    assert await scene.says() == "mine"


@pytest.mark.behaviour("OPS-96")
async def test_broken_package_leaves_the_old_one_and_no_environment(scene: Scene, index: Index) -> None:
    index.add("engine", "1.0", "one")
    index.put("engine", "engine-2.0-py3-none-any.whl", b"not a wheel at all")
    await scene.install(pypi_build("engine==1.0", module="engine"))
    with pytest.raises(CorralError):
        await scene.install(pypi_build("engine==2.0", module="engine", version="2.0"), replaces=True)
    assert await scene.says() == "one"
    assert_nothing_is_left_over(scene.root, scene.installer)


async def test_wheel_by_address_with_requirements_gets_both(scene: Scene, index: Index, files: FileServer) -> None:
    index.add("helper", "2.1", "with help")
    files.put("/other/engine-1.0-py3-none-any.whl", wheel_of("engine", "1.0", "one"))
    build = Build(
        name=NAME,
        version="1.0",
        source=BackendSource(
            kind=SourceKind.URL,
            uri=f"{files.url}/other/engine-1.0-py3-none-any.whl",
            requirements=("helper==2.1",),
        ),
        manifest=Manifest(command=("{python}", "-c", "import engine, helper; print(engine.WORD, helper.WORD)")),
    )
    await scene.install(build)
    assert await scene.says() == "one with help"


# --- which index ---


@pytest.mark.behaviour("INS-35")
async def test_index_configured_only_for_pip_is_used(scene: Scene, index: Index, tmp_path: Path) -> None:
    index.add("engine", "1.0", "one")
    use(scene, plain_environment() | {"PIP_INDEX_URL": index.url})
    await scene.install(pypi_build("engine==1.0", module="engine"))
    assert await scene.says() == "one"
    (tmp_path / ".config" / "pip").mkdir(parents=True)
    (tmp_path / ".config" / "pip" / "pip.conf").write_text(f"[global]\nindex-url = {index.url}\n")
    use(scene, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    await scene.install(pypi_build("engine==1.0", module="engine"), replaces=True)
    assert await scene.says() == "one"


@pytest.mark.behaviour("INS-35")
def test_index_configured_for_uv_wins_over_pip(tmp_path: Path) -> None:
    pip = {"HOME": str(tmp_path), "PIP_INDEX_URL": "http://pip.example/simple"}
    assert make_uv_environment(pip)["UV_DEFAULT_INDEX"] == "http://pip.example/simple"
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX"):
        environment = make_uv_environment(pip | {name: "http://uv.example/simple"})
        assert "http://pip.example/simple" not in environment.values()
        assert environment[name] == "http://uv.example/simple"
    (tmp_path / ".config" / "uv").mkdir(parents=True)
    (tmp_path / ".config" / "uv" / "uv.toml").write_text('index-url = "http://file.example/simple"\n')
    assert "UV_DEFAULT_INDEX" not in make_uv_environment(pip)


@pytest.mark.behaviour("INS-35")
def test_secrets_of_the_worker_are_not_given_to_programs() -> None:
    given = make_uv_environment(
        {"PATH": "/bin", "CORRAL_TOKEN": "secret", "AWS_SECRET": "x", "https_proxy": "http://p"}
    )
    assert given == {"PATH": "/bin", "https_proxy": "http://p"} | {
        name: value for name, value in given.items() if name == "UV_DEFAULT_INDEX"
    }


# --- the real one ---


@pytest.fixture
def real(tmp_path: Path) -> Scene:
    options = InstallerOptions(timeouts=replace(PATIENCE, stall_s=60.0, header_s=60.0), environment=dict(os.environ))
    return Scene(root=tmp_path / "real", options=replace(options, headroom_bytes=0))


async def test_small_package_is_installed_from_the_real_index(real: Scene) -> None:
    build = Build(
        name="six",
        version="1.16.0",
        source=BackendSource(kind=SourceKind.PYPI, requirements=(f"{SMALL} --hash=sha256:{SMALL_HASH}",)),
        manifest=Manifest(
            command=("{python}", "-c", "import six; print(six.__version__)"), check=("{python}", "-c", "import six")
        ),
    )
    report = Recorder()
    await real.install(build, report=report)
    assert await real.says("six") == "1.16.0"
    assert report.bytes[-1][0] == report.bytes[-1][1] == 11053


async def test_real_engine_is_stopped_in_the_middle_and_goes_on(real: Scene) -> None:
    build = Build(
        name="cpu-llama-cpp",
        version="2026.10.11549",
        source=BackendSource(kind=SourceKind.PYPI, requirements=(REAL_ENGINE,)),
        manifest=Manifest(
            command=("{python}", "-c", "import xllamacpp; print(hasattr(xllamacpp, 'Server'))"),
            check=("{python}", "-c", "import xllamacpp"),
        ),
    )
    there = asyncio.Event()
    report = Recorder(progress_hook=lambda current: there.set() if current > 4_000_000 else None)
    task = asyncio.get_running_loop().create_task(real.install(build, report=report))
    await asyncio.wait({task, asyncio.get_running_loop().create_task(there.wait())}, return_when="FIRST_COMPLETED")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (partial,) = real.partials
    kept = partial.stat().st_size
    assert kept > 4_000_000
    report = Recorder()
    real.installer = real.restarted()
    installed = await real.install(build, report=report)
    assert report.bytes[0][0] >= kept
    assert report.bytes[-1][0] == report.bytes[-1][1]
    assert await real.says("cpu-llama-cpp") == "True"
    assert installed.size_bytes
    assert installed.size_bytes > 50_000_000
