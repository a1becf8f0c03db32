"""Models in registries of images and in those of Ollama, from a real registry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from corral.ports.files import pick_model_file
from tests.transfer.scene import Scene, scene_of
from tests.worker.backends import server as faulty
from tests.worker.backends.registry import CONFIG, INDEX, LAYER, MANIFEST, USER, Registry, TokenGate
from tests.worker.backends.scene import sha256, tar_of
from tests.worker.backends.server import FileServer
from tools.fetch_registry import find_registry

KIB = 1024
WEIGHTS = bytes(range(256)) * 4 * 512
TITLE = "org.opencontainers.image.title"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OLLAMA = "application/vnd.ollama.image."


def program() -> str:
    found = find_registry()
    if found is None:
        pytest.skip("docker-registry is not on this machine; `make dev` fetches it where apt can")
    return found


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    async with Registry(program(), tmp_path / "registry").running() as running:
        yield running


async def push(
    registry: Registry,
    repository: str,
    tag: str,
    layers: Sequence[tuple[bytes, Mapping[str, Any]]],
    kind: str = MANIFEST,
) -> dict[str, Any]:
    config = await registry.push_blob(repository, b"{}")
    pushed = [{**await registry.push_blob(repository, content), **more} for content, more in layers]
    document = {"schemaVersion": 2, "mediaType": kind, "config": config | {"mediaType": CONFIG}, "layers": pushed}
    return await registry.push_manifest(repository, tag, document)


def titled(name: str, media_type: str = "application/octet-stream") -> dict[str, Any]:
    return {"mediaType": media_type, "annotations": {TITLE: name}}


async def test_titled_layers_of_an_artifact_are_its_files(scene: Scene, registry: Registry) -> None:
    layers = [(WEIGHTS, titled("shards/one.gguf")), (b"{}", titled("config.json"))]
    await push(registry, "models/tiny", "v1", layers)
    found = await scene.resolve(f"oci://{registry.host}/models/tiny:v1")
    assert [(one.path, one.size_bytes, one.sha256) for one in found] == [
        ("config.json", 2, sha256(b"{}")),
        ("shards/one.gguf", len(WEIGHTS), sha256(WEIGHTS)),
    ]
    # The tag moves on; what was found does not.
    await push(registry, "models/tiny", "v1", [(b"other", titled("config.json"))])
    assert (await scene.fetch(found[1])).read_bytes() == WEIGHTS
    assert scene.moved[-1] == (len(WEIGHTS), len(WEIGHTS))
    await scene.origins.forget(found[1], scene.into)
    assert scene.left == []


async def test_list_of_one_artifact_and_a_digest_name_it_too(scene: Scene, registry: Registry) -> None:
    pushed = await push(registry, "models/tiny", "", [(WEIGHTS, titled("tiny.gguf"))])
    assert await scene.content(f"oci://{registry.host}/models/tiny@{pushed['digest']}") == WEIGHTS
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [pushed]}
    await registry.push_manifest("models/tiny", "list", document)
    assert await scene.content(f"oci://{registry.host}/models/tiny:list", sha256(WEIGHTS)) == WEIGHTS
    await registry.push_manifest("models/tiny", "two", document | {"manifests": [pushed, pushed]})
    await scene.refuses(f"oci://{registry.host}/models/tiny:two", "unsupported")


async def test_reference_that_is_no_model_artifact_is_refused(scene: Scene, registry: Registry) -> None:
    await registry.push_image("engines/one", "v1", [tar_of({"a": b"x"})])
    await scene.refuses(f"oci://{registry.host}/engines/one:v1", "unsupported")
    await push(registry, "models/packed", "v1", [(tar_of({"a": b"x"}), titled("folder", LAYER))])
    await scene.refuses(f"oci://{registry.host}/models/packed:v1", "unsupported")
    await push(registry, "models/bad", "v1", [(WEIGHTS, titled("../../evil.gguf"))])
    await scene.refuses(f"oci://{registry.host}/models/bad:v1", "bad_package")
    await scene.refuses(f"oci://{registry.host}/models/missing:v1", "not_found")
    await push(registry, "models/two", "v1", [(WEIGHTS, titled("a")), (b"x", titled("b"))])
    await scene.refuses(f"oci://{registry.host}/models/two:v1", "invalid_request", sha256(WEIGHTS))
    await push(registry, "models/one", "v1", [(WEIGHTS, titled("a"))])
    await scene.refuses(f"oci://{registry.host}/models/one:v1", "digest_mismatch", sha256(b"x"))
    assert scene.left == []


async def test_registry_with_a_password_is_read_with_the_frontend_s_setting(tmp_path: Path) -> None:
    async with Registry(program(), tmp_path / "closed", needs_password=True).running() as closed:
        await push(closed, "models/tiny", "v1", [(WEIGHTS, titled("tiny.gguf"))])
        uri = f"oci://{closed.host}/models/tiny:v1"
        async with scene_of(tmp_path) as stranger:
            await stranger.refuses(uri, "not_allowed")
        # The operator's own registry may be inside.
        async with scene_of(tmp_path, registry_credentials={closed.host: USER}, allows_private=False) as scene:
            found = await scene.one(uri)
            assert USER.partition(":")[2] not in repr(found)
        async with scene_of(tmp_path, registry_credentials={closed.host: USER}, allows_private=False) as later:
            assert (await later.fetch(found)).read_bytes() == WEIGHTS
        async with scene_of(tmp_path / "b", registry_credentials={closed.host: "reader:wrong"}) as wrong:
            with pytest.raises(Exception, match="is not allowed to fetch it"):
                await wrong.fetch(found)


async def test_token_that_has_run_out_is_renewed(scene: Scene, registry: Registry) -> None:
    await push(registry, "models/tiny", "v1", [(WEIGHTS, titled("tiny.gguf"))])
    gate = TokenGate(registry.host, uses=1)
    async with gate.running() as host:
        assert await scene.content(f"oci://{host}/models/tiny:v1") == WEIGHTS
    assert len(gate.scopes) >= 2
    assert set(gate.scopes) == {"repository:models/tiny:pull"}


async def test_model_of_ollama_is_its_weights_and_what_goes_with_them(scene: Scene, registry: Registry) -> None:
    layers = [
        (WEIGHTS, {"mediaType": f"{OLLAMA}model"}),
        (b"{{ .Prompt }}", {"mediaType": f"{OLLAMA}template"}),
        (b'{"stop": []}', {"mediaType": f"{OLLAMA}params"}),
        (b"Apache", {"mediaType": f"{OLLAMA}license"}),
    ]
    await push(registry, "library/tiny", "135m", layers, DOCKER)
    found = await scene.resolve(f"ollama://{registry.host}/tiny:135m")
    assert [(one.path, one.kind) for one in found] == [
        ("model.gguf", "model"),
        ("params.json", "params"),
        ("template.txt", "template"),
    ]
    model = pick_model_file(found)
    assert model is not None
    assert (await scene.fetch(model)).read_bytes() == WEIGHTS
    assert (await scene.fetch(found[2])).read_bytes() == b"{{ .Prompt }}"
    # A promise is about the weights.
    promised = await scene.resolve(f"ollama://{registry.host}/library/tiny:135m", sha256(WEIGHTS))
    assert promised == found
    await scene.refuses(f"ollama://{registry.host}/tiny:135m", "digest_mismatch", sha256(b"x"))


async def test_reference_that_is_no_ollama_model_is_refused(scene: Scene, registry: Registry) -> None:
    await push(registry, "library/odd", "latest", [(b"x", {"mediaType": f"{OLLAMA}license"})], DOCKER)
    await scene.refuses(f"ollama://{registry.host}/odd", "unsupported")
    await scene.refuses(f"ollama://{registry.host}/missing", "not_found")
    await scene.refuses("ollama://", "invalid_request")
    await scene.refuses("ollama://a/b/c/d", "invalid_request")


async def test_blob_goes_on_where_it_stopped(scene: Scene, files: FileServer) -> None:
    digest = f"sha256:{sha256(WEIGHTS)}"
    blob = files.put(f"/v2/library/tiny/blobs/{digest}", WEIGHTS, faults=[faulty.cut_after(256 * KIB)])
    manifest = f'{{"layers": [{{"mediaType": "{OLLAMA}model", "size": {len(WEIGHTS)}, "digest": "{digest}"}}]}}'
    files.put("/v2/library/tiny/manifests/latest", manifest.encode(), content_type=DOCKER)
    assert await scene.content(f"ollama://{files.url.removeprefix('http://')}/tiny") == WEIGHTS
    assert blob.ranges == [None, f"bytes={256 * KIB}-"]
