"""Images and artifacts, from a real registry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.domain.backend import BackendSource, Build, Manifest, SourceKind
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.oci_registry import OciReference, parse_reference
from corral.worker.backends.layout import InstallFailed
from tests.worker.backends.registry import MACHINE, PLAIN_LAYER, USER, ZSTD_LAYER, Registry, TokenGate
from tests.worker.backends.scene import (
    NAME,
    Recorder,
    Scene,
    assert_nothing_is_left_over,
    engine_files,
    files_below,
    sha256,
    tar_of,
    zip_of,
)
from tools.fetch_registry import find_registry


def program() -> str:
    found = find_registry()
    if found is None:
        pytest.skip("docker-registry is not on this machine; `make dev` fetches it where apt can")
    return found


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    async with Registry(program(), tmp_path / "registry").running() as running:
        yield running


def oci_build(uri: str, *mirrors: str, **source: str) -> Build:
    return Build(
        name=NAME,
        version="1.0",
        source=BackendSource(kind=SourceKind.OCI, uri=uri, mirrors=mirrors, **source),  # type: ignore[arg-type]
        manifest=Manifest(),
    )


async def test_image_is_unpacked_layer_by_layer(scene: Scene, registry: Registry) -> None:
    layers = [tar_of(engine_files("old") | {"gone": b"x"}), tar_of({"engine.py": b"print('new')\n", ".wh.gone": b""})]
    pushed = await registry.push_image("engines/one", "v1", layers)
    report = Recorder()
    installed = await scene.install(oci_build(f"oci://{registry.host}/engines/one:v1"), report=report)
    assert await scene.says() == "new"
    folder = scene.installer.find_runnable(NAME).directory  # type: ignore[union-attr]
    assert files_below(folder) == {"engine.py", "backend.yaml", "backend.json"}
    assert installed.digest == pushed["digest"]
    total = sum(len(layer) for layer in layers)
    assert report.bytes[-1][:2] == (total, total)


@pytest.mark.behaviour("OPS-97")
async def test_installed_digest_is_that_of_the_tag_when_it_was_resolved(scene: Scene, registry: Registry) -> None:
    """The tag moves in the middle of the installation."""
    first = await registry.push_image("engines/one", "latest", [tar_of(engine_files("first"))])
    second = await registry.push_image("engines/one", "next", [tar_of(engine_files("second"))])
    build = oci_build(f"oci://{registry.host}/engines/one")

    async def move_the_tag() -> None:
        await registry.push_image("engines/one", "latest", [tar_of(engine_files("second"))])

    installed = await scene.installer.install(
        build, generation=1, replaces=False, before_swap=move_the_tag, progress=Recorder()
    )
    assert (installed.digest, await scene.says()) == (first["digest"], "first")
    assert installed.uri == f"oci+http://{registry.host}/engines/one@{first['digest']}"
    upgraded = await scene.install(build, replaces=True, generation=2)
    assert (upgraded.digest, await scene.says()) == (second["digest"], "second")


async def test_index_gives_the_image_for_this_machine(scene: Scene, registry: Registry) -> None:
    mine = await registry.push_image("engines/one", "", [tar_of(engine_files("mine"))])
    other = await registry.push_image("engines/one", "", [tar_of(engine_files("other"))])
    index = await registry.push_index("engines/one", "v1", {"riscv64": other, MACHINE: mine})
    installed = await scene.install(oci_build(f"{registry.host}/engines/one:v1"))
    # The digest of the index, as whoever looks for upgrades sees it.
    assert (installed.digest, await scene.says()) == (index["digest"], "mine")
    await registry.push_index("engines/one", "foreign", {"riscv64": other})
    with pytest.raises(InstallFailed, match="linux/riscv64") as caught:
        await scene.install(oci_build(f"{registry.host}/engines/one:foreign"), replaces=True)
    assert caught.value.slug == "unsupported"


async def test_mirror_delivers_what_the_first_has_promised(scene: Scene, registry: Registry, tmp_path: Path) -> None:
    async with Registry(program(), tmp_path / "mirror").running() as mirror:
        layer = tar_of(engine_files("one"))
        pushed = await registry.push_image("engines/one", "v1", [layer])
        await mirror.push_image("copies/one", "v1", [layer])
        # The first registry has the manifest, and has lost the layer.
        for blob in (tmp_path / "registry" / "data").rglob(f"{sha256(layer)}/data"):
            blob.unlink()
        installed = await scene.install(
            oci_build(f"oci://{registry.host}/engines/one:v1", f"oci://{mirror.host}/copies/one:v1")
        )
        assert (installed.digest, await scene.says()) == (pushed["digest"], "one")
        assert installed.uri == f"oci+http://{mirror.host}/copies/one@{pushed['digest']}"


@pytest.mark.behaviour("OPS-97")
async def test_mirror_is_recorded_when_the_first_registry_is_away(
    scene: Scene, registry: Registry, tmp_path: Path
) -> None:
    async with Registry(program(), tmp_path / "gone").running() as gone:
        address = gone.host
    pushed = await registry.push_image("engines/one", "v1", [tar_of(engine_files("one"))])
    build = oci_build(f"oci://{address}/engines/one:v1", f"oci://{registry.host}/engines/one:v1")
    installed = await scene.install(build)
    assert installed.uri == f"oci+http://{registry.host}/engines/one@{pushed['digest']}"
    with pytest.raises(SourceFailed) as caught:
        await scene.install(oci_build(f"oci://{address}/engines/one:v1"), replaces=True)
    assert caught.value.slug == "source_unavailable"
    assert await scene.says() == "one"


async def test_digest_in_the_reference_is_what_is_installed(scene: Scene, registry: Registry) -> None:
    old = await registry.push_image("engines/one", "v1", [tar_of(engine_files("old"))])
    await registry.push_image("engines/one", "v1", [tar_of(engine_files("new"))])
    await scene.install(oci_build(f"oci://{registry.host}/engines/one:v1@{old['digest']}"))
    assert await scene.says() == "old"
    with pytest.raises(TransferFailed) as caught:
        await scene.install(oci_build(f"oci://{registry.host}/engines/one@sha256:{'0' * 64}"), replaces=True)
    assert caught.value.slug == "not_found"


async def test_artifacts_of_one_file_and_plain_layers_are_understood(scene: Scene, registry: Registry) -> None:
    await registry.push_image("engines/zip", "v1", [zip_of(engine_files("zip"))], media_type="application/zip")
    await scene.install(oci_build(f"oci://{registry.host}/engines/zip:v1"))
    assert await scene.says() == "zip"
    plain = tar_of(engine_files("plain"), mode="w")
    await registry.push_image("engines/plain", "v1", [plain], media_type=PLAIN_LAYER)
    await scene.install(oci_build(f"oci://{registry.host}/engines/plain:v1"), replaces=True)
    assert await scene.says() == "plain"
    await registry.push_image("engines/file", "v1", [b"x"], media_type="application/octet-stream", title="../up")
    with pytest.raises(TransferFailed) as caught:
        await scene.install(oci_build(f"oci://{registry.host}/engines/file:v1"), replaces=True)
    assert caught.value.slug == "bad_package"
    zstd = b"\x28\xb5\x2f\xfd" + bytes(50)
    await registry.push_image("engines/zstd", "v1", [zstd], media_type=ZSTD_LAYER)
    with pytest.raises(InstallFailed, match="zstd") as caught:
        await scene.install(oci_build(f"oci://{registry.host}/engines/zstd:v1"), replaces=True)
    assert caught.value.slug == "unsupported"
    assert await scene.says() == "plain"
    assert_nothing_is_left_over(scene.root, scene.installer)


async def test_registry_with_a_password_is_read_with_the_worker_s_setting(scene: Scene, tmp_path: Path) -> None:
    async with Registry(program(), tmp_path / "closed", needs_password=True).running() as closed:
        await closed.push_image("engines/one", "v1", [tar_of(engine_files("one"))])
        build = oci_build(f"oci://{closed.host}/engines/one:v1")
        with pytest.raises(TransferFailed, match="is not allowed to fetch it"):
            await scene.install(build)
        scene.options = replace(scene.options, registry_credentials={closed.host: USER})
        scene.installer = scene.restarted()
        await scene.install(build)
        assert await scene.says() == "one"
        assert USER not in repr(scene.options)


async def test_registry_token_is_requested_and_renewed_when_it_expires(scene: Scene, registry: Registry) -> None:
    layers = [tar_of({f"file-{number}": bytes(1000)}) for number in range(3)]
    await registry.push_image("engines/one", "v1", [*layers, tar_of(engine_files("one"))])
    gate = TokenGate(registry.host, uses=2)
    async with gate.running() as host:
        scene.options = replace(scene.options, registry_credentials={host: USER, registry.host: "other:secret"})
        scene.installer = scene.restarted()
        await scene.install(oci_build(f"oci://{host}/engines/one:v1"))
    assert await scene.says() == "one"
    assert set(gate.scopes) == {"repository:engines/one:pull"}
    assert len(gate.scopes) >= 2
    assert set(gate.basic) == {"Basic cmVhZGVyOnNlY3JldA=="}


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("oci://r.example/a/b:v1", OciReference(host="r.example", repository="a/b", tag="v1")),
        ("r.example/a", OciReference(host="r.example", repository="a", tag="latest")),
        ("oci://r.example:5000/a/b", OciReference(host="r.example:5000", repository="a/b", tag="latest")),
        ("oci://localhost/a", OciReference(host="localhost", repository="a", tag="latest", is_plain=True)),
        ("oci://[::1]:5000/a", OciReference(host="[::1]:5000", repository="a", tag="latest", is_plain=True)),
        ("oci+http://r.example/a", OciReference(host="r.example", repository="a", tag="latest", is_plain=True)),
        (
            f"r.example/a:v1@sha256:{'a' * 64}",
            OciReference(host="r.example", repository="a", tag="v1", digest=f"sha256:{'a' * 64}"),
        ),
    ],
)
def test_reference_names_its_registry(uri: str, expected: OciReference) -> None:
    assert parse_reference(uri) == expected


@pytest.mark.parametrize(
    "uri", ["alpine", "library/alpine:3", "https://r.example/a", "oci://r.example/a@sha256:12", ""]
)
def test_reference_without_a_registry_is_refused(uri: str) -> None:
    with pytest.raises(TransferFailed) as caught:
        parse_reference(uri)
    assert caught.value.slug == "bad_manifest"
