"""Archives and wheels by address: mirrors, what is recorded, and what a worker insists on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from corral.domain.backend import BackendSource, Build, Manifest, SourceKind
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.worker.backends.layout import InstallFailed
from corral.worker.backends.sources.npm_registry import find_registry, is_npm_package, make_archive_url
from tests.worker.backends import server as faulty
from tests.worker.backends.scene import (
    NAME,
    Scene,
    archive_build,
    assert_nothing_is_left_over,
    engine_files,
    plain_environment,
    sha256,
    tar_of,
    wheel_of,
    zip_of,
)
from tests.worker.backends.server import FileServer

BODY = tar_of(engine_files("one"))


@pytest.mark.behaviour("OPS-97")
async def test_mirror_that_delivered_is_what_is_recorded(scene: Scene, files: FileServer) -> None:
    files.put("/broken.tar.gz", b"", faults=[faulty.status(500)], is_always_faulty=True)
    files.put("/wrong.tar.gz", b"something else")
    files.put("/page.tar.gz", b"", faults=[faulty.page()], is_always_faulty=True)
    files.put("/good.tar.gz", BODY)
    mirrors = tuple(f"{files.url}/{name}.tar.gz?token=secret" for name in ("missing", "page", "wrong", "good"))
    build = archive_build(f"{files.url}/broken.tar.gz", sha256=sha256(BODY), mirrors=mirrors)
    installed = await scene.install(build)
    assert installed.uri == f"{files.url}/good.tar.gz"
    assert installed.digest == f"sha256:{sha256(BODY)}"
    assert scene.restarted().list_installed() == (installed,)
    assert await scene.says() == "one"
    assert scene.partials == []


async def test_download_is_retried_without_a_delivering_mirror_if_any_may_come_back(
    scene: Scene, files: FileServer
) -> None:
    files.put("/broken.tar.gz", b"", faults=[faulty.status(500)], is_always_faulty=True)
    gone, down = f"{files.url}/missing.tar.gz", f"{files.url}/broken.tar.gz"
    with pytest.raises(SourceFailed):
        await scene.install(archive_build(gone, mirrors=(down,)))
    with pytest.raises(TransferFailed) as caught:
        await scene.install(archive_build(gone, mirrors=(gone,)))
    assert caught.value.slug == "not_found"


@pytest.mark.parametrize("archive", ["tar", "zip"])
async def test_archive_is_known_by_its_content_and_not_by_its_name(
    scene: Scene, files: FileServer, archive: str
) -> None:
    make = {"tar": tar_of, "zip": zip_of}[archive]
    files.put("/download", make(engine_files(archive)), content_type="text/plain")
    await scene.install(archive_build(f"{files.url}/download"))
    assert await scene.says() == archive


async def test_wheel_goes_into_an_environment_that_can_be_moved(scene: Scene, files: FileServer) -> None:
    wheel = wheel_of("engine", "1.0", "from a wheel")
    files.put("/engine-1.0-py3-none-any.whl", wheel)
    scene.options = replace(scene.options, environment=plain_environment())
    scene.installer = scene.restarted()
    build = Build(
        name=NAME,
        version="1.0",
        source=BackendSource(kind=SourceKind.URL, uri=f"{files.url}/engine-1.0-py3-none-any.whl", sha256=sha256(wheel)),
        manifest=Manifest(command=("{python}", "-m", "engine"), check=("{python}", "-m", "engine")),
    )
    installed = await scene.install(build)
    assert await scene.says() == "from a wheel"
    assert installed.digest == f"sha256:{sha256(wheel)}"
    found = scene.installer.find_runnable(NAME)
    assert found is not None
    assert found.python == str(found.directory / "venv/bin/python")

    # The machine's Python is replaced by another one.
    (found.directory / "venv/bin/python").unlink()
    (found.directory / "venv/bin/python").symlink_to("/nowhere/python3")
    assert scene.installer.list_installed() == ()
    again = scene.restarted()
    await again.tidy()
    assert again.list_installed() == ()
    scene.installer = again
    await scene.install(build)
    assert await scene.says() == "from a wheel"
    assert_nothing_is_left_over(scene.root, again)


async def test_python_that_this_machine_does_not_have_is_refused(scene: Scene, files: FileServer) -> None:
    files.put("/engine-1.0-py3-none-any.whl", wheel_of("engine", "1.0", "never"))
    scene.options = replace(scene.options, environment=plain_environment())
    scene.installer = scene.restarted()
    for python, code in ((">=3.99", "no_python"), ("newest", "bad_manifest")):
        build = archive_build(f"{files.url}/engine-1.0-py3-none-any.whl", python=python)
        with pytest.raises(TransferFailed) as caught:
            await scene.install(build)
        assert caught.value.slug == code
    assert_nothing_is_left_over(scene.root, scene.installer)


@pytest.mark.parametrize("scheme", ["file", "ftp", ""])
async def test_url_source_accepts_only_web_addresses(scene: Scene, scheme: str) -> None:
    with pytest.raises(TransferFailed) as caught:
        await scene.install(archive_build(f"{scheme}:///etc/passwd"))
    assert caught.value.slug == "bad_manifest"


@pytest.mark.parametrize(
    "source",
    [
        BackendSource(kind=SourceKind.URL, uri="http://127.0.0.1:1/engine.tar.gz"),
        BackendSource(kind=SourceKind.OCI, uri="oci://127.0.0.1:1/engine:v1"),
        BackendSource(kind=SourceKind.PYPI, requirements=("engine==1.0", f"other==1.0 --hash=sha256:{'0' * 64}")),
        BackendSource(
            kind=SourceKind.URL,
            uri="http://127.0.0.1:1/engine-1.0-py3-none-any.whl",
            sha256="0" * 64,
            requirements=("other==1.0",),
        ),
    ],
    ids=["url", "oci", "pypi", "url with requirements"],
)
async def test_strict_worker_refuses_a_source_without_a_sha256(scene: Scene, source: BackendSource) -> None:
    scene.options = replace(scene.options, require_integrity=True)
    scene.installer = scene.restarted()
    with pytest.raises(InstallFailed, match="only what can be verified") as caught:
        await scene.install(Build(name=NAME, version="1.0", source=source, manifest=Manifest(command=("x",))))
    assert caught.value.slug == "unsigned"
    assert_nothing_is_left_over(scene.root, scene.installer)


async def test_strict_worker_takes_what_is_promised(scene: Scene, files: FileServer) -> None:
    scene.options = replace(scene.options, require_integrity=True)
    scene.installer = scene.restarted()
    files.put("/engine.tar.gz", BODY)
    await scene.install(archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)))
    assert await scene.says() == "one"


@pytest.mark.parametrize(
    ("uri", "is_package"),
    [
        ("npm:@a/b-c@1.2.3", True),
        ("npm:plain@1.0.0", True),
        ("http://127.0.0.1:1/a.tgz", False),
        ("npm:../../etc@1", False),
    ],
)
def test_npm_package_is_recognised_among_other_addresses(uri: str, is_package: bool) -> None:
    assert is_npm_package(uri) is is_package


def test_npm_package_has_an_archive_at_the_registry() -> None:
    assert (
        make_archive_url("npm:@a/b-c@1.2.3", "http://127.0.0.1:1/r/") == "http://127.0.0.1:1/r/@a/b-c/-/b-c-1.2.3.tgz"
    )
    assert make_archive_url("npm:plain@1.0.0", "http://127.0.0.1:1") == "http://127.0.0.1:1/plain/-/plain-1.0.0.tgz"


async def test_npm_package_is_installed_from_the_registry_of_the_worker(scene: Scene, files: FileServer) -> None:
    environment = {**scene.options.environment, "npm_config_registry": files.url}
    scene.options = replace(scene.options, environment=environment)
    scene.installer = scene.restarted()
    files.put("/@a/engine/-/engine-1.0.0.tgz", BODY)
    await scene.install(archive_build("npm:@a/engine@1.0.0", sha256=sha256(BODY)))
    assert await scene.says() == "one"


@pytest.mark.parametrize(
    ("program", "registry"),
    [
        ("echo 'npm warn something'; echo http://127.0.0.1:1/of-npm/", "http://127.0.0.1:1/of-npm/"),
        ("echo undefined", None),
        (None, None),
    ],
)
async def test_npm_registry_is_the_one_that_npm_is_configured_for(
    tmp_path: Path, program: str | None, registry: str | None
) -> None:
    if program is not None:
        npm = tmp_path / "npm"
        npm.write_text(f"#!/bin/sh\n{program}\n")
        npm.chmod(0o755)
    environment = {"PATH": str(tmp_path)}
    if registry is not None:
        assert await find_registry(environment, tmp_path) == registry
        return
    with pytest.raises(InstallFailed, match="does not know where npm packages come from"):
        await find_registry(environment, tmp_path)
