"""The page over HTTP, from a built folder that stands in for the real one."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from corral.api.page.page_store import REFRESH_INTERVAL_S, PageStore
from corral.api.page.routes import POLICY
from tests.page.fake import BROTLI, INDEX, SCRIPT, SCRIPT_TEXT, write_built, write_state
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.hand_clock import HandClock

FOREVER = "public, max-age=31536000, immutable"
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
# Nobody listens there.
NO_DATABASE = "postgresql://nobody@127.0.0.1:1/none"


class Site:
    """A frontend with a folder and a clock of the test's own."""

    def __init__(self, frontend: RunningFrontend, folder: Path) -> None:
        self.frontend = frontend
        self.folder = folder
        self.clock = HandClock()
        frontend.core.api_deps.page = PageStore(folder, self.clock)

    def pass_time(self) -> None:
        """Until the folder may be looked at again."""
        self.clock.now += REFRESH_INTERVAL_S + 0.1

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, bytes]:
        """As it was sent: no encoding is undone, no redirection followed."""
        sent = {"Accept-Encoding": "identity"} | {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as http,
            http.request(method, f"{self.frontend.url}{path}", headers=sent, allow_redirects=False) as answer,
        ):
            return answer.status, answer.headers, await answer.read()


@pytest.fixture
async def site(frontend: RunningFrontend, tmp_path: Path) -> Site:
    return Site(frontend, tmp_path / "built")


@pytest.fixture
async def built(site: Site) -> Site:
    write_built(site.folder)
    return site


async def test_files_with_a_hash_in_their_name_are_kept_for_ever(built: Site) -> None:
    status, headers, body = await built.get(f"/app/{SCRIPT}")
    assert (status, body) == (200, SCRIPT_TEXT.encode())
    assert headers["Cache-Control"] == FOREVER
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert (await built.get("/app/assets/ground.woff2"))[1]["Content-Type"] == "font/woff2"


async def test_every_other_path_serves_the_index_page_without_caching(built: Site) -> None:
    for path in ("/app/", "/app/nodes", "/app/models/hf%3A%2F%2Fone/two.gguf", "/app/index.html"):
        status, headers, body = await built.get(path)
        assert (status, body.decode()) == (200, INDEX)
        assert (headers["Cache-Control"], headers["Content-Type"]) == ("no-cache", "text/html; charset=utf-8")


async def test_files_beside_the_page_are_files(built: Site) -> None:
    status, headers, _ = await built.get("/app/fence.svg")
    assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, "image/svg+xml", "no-cache")


async def test_favicon_is_the_sign_of_the_page(built: Site) -> None:
    (built.folder / "fence.svg").write_text("<svg/>", encoding="utf-8")
    built.pass_time()
    status, headers, body = await built.get("/favicon.ico")
    assert (status, headers["content-type"], body) == (200, "image/svg+xml", b"<svg/>")


async def test_page_request_reads_no_file(built: Site) -> None:
    await built.get("/app/")
    shutil.rmtree(built.folder)
    built.pass_time()
    assert [(await built.get(path))[0] for path in ("/app/", f"/app/{SCRIPT}", "/app/fence.svg")] == [200] * 3


async def test_best_encoding_that_is_taken_is_sent(built: Site) -> None:
    for accepted, encoding in (
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("BR", "br"),
        ("identity", None),
        ("zstd", None),
    ):
        _, headers, body = await built.get(f"/app/{SCRIPT}", accept_encoding=accepted)
        assert headers.get("Content-Encoding") == encoding, accepted
        assert headers["Vary"] == "accept-encoding"
        text = SCRIPT_TEXT.encode()
        assert {"br": BROTLI, "gzip": body, None: text}[encoding] == body
        if encoding == "gzip":
            assert gzip.decompress(body) == text


async def test_text_without_its_compressed_twin_is_compressed_here(built: Site) -> None:
    _, headers, body = await built.get("/app/", accept_encoding="gzip, br")
    assert (headers["Content-Encoding"], gzip.decompress(body).decode()) == ("gzip", INDEX)


@pytest.mark.parametrize("path", ["/app/", f"/app/{SCRIPT}"])
async def test_page_request_with_a_matching_etag_gets_304(built: Site, path: str) -> None:
    _, headers, _ = await built.get(path)
    etag = headers["ETag"]
    for given in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        status, headers, body = await built.get(path, if_none_match=given)
        assert (status, headers["ETag"], body) == (304, etag, b"")
        assert "Content-Length" not in headers
    assert (await built.get(path, if_none_match='"other"'))[0] == 200


async def test_each_encoding_has_a_tag_of_its_own(built: Site) -> None:
    encodings = ("identity", "gzip", "br")
    tags = {(await built.get(f"/app/{SCRIPT}", accept_encoding=one))[1]["ETag"] for one in encodings}
    assert len(tags) == 3


async def test_head_gets_the_same_lines_and_no_body(built: Site) -> None:
    for path in ("/app/", f"/app/{SCRIPT}", "/", "/app/assets/none.js"):
        own = {"Date", "X-Request-Id"}
        status, headers, _ = await built.get(path)
        head = await built.get(path, "HEAD")
        assert (head[0], head[2]) == (status, b"")
        assert {name: head[1][name] for name in head[1] if name.title() not in own} == {
            name: headers[name] for name in headers if name.title() not in own
        }


@pytest.mark.behaviour("PAGE-3")
async def test_page_may_load_its_own_files_only(built: Site) -> None:
    for path in ("/app/", "/app/nodes", f"/app/{SCRIPT}"):
        _, headers, _ = await built.get(path)
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert headers["Content-Security-Policy"] == POLICY
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["font-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in POLICY
        assert "http" not in POLICY
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "same-origin")


async def test_missing_file_and_path_outside_the_page_are_404(built: Site) -> None:
    for path in (
        "/app/assets/none.js",
        "/app/assets/",
        "/app/assets/%2e%2e/index.html",
        "/app/%2e%2e/secret",
        "/app/..%2fsecret",
        "/app/assets/..%5c..%5csecret",
        "/app/%00",
    ):
        (built.folder.parent / "secret").write_text("a secret")
        url = built.frontend.url.removeprefix("http://")
        host, _, port = url.partition(":")
        status, body = await _raw(host, int(port), path)
        assert status == 404, path
        assert b"a secret" not in body, path
        assert b"There is no such file." in body


async def _raw(host: str, port: int, path: str) -> tuple[int, bytes]:
    """As written: clients tidy paths up before they send them."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split(b" ", 2)[1]), answer


@pytest.mark.parametrize("name", ["stamp.json", "state.json", ".hidden", "link"])
async def test_file_that_is_no_part_of_the_page_is_not_served(built: Site, name: str) -> None:
    secret = built.folder.parent / "secret"
    secret.write_text("a secret")
    write_state(built.folder, "done", "a secret", "")
    (built.folder / ".hidden").write_text("a secret")
    (built.folder / "link").symlink_to(secret)
    _, _, body = await built.get(f"/app/{name}")
    assert body.decode() == INDEX


async def test_page_is_only_read(built: Site) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert (await built.get("/app/", method))[0] == 405


async def test_page_that_is_built_meanwhile_appears_by_itself(site: Site) -> None:
    write_state(site.folder, "building", "The web page is being built.", "It opens here by itself.")
    assert (await site.get("/app/"))[0] == 503
    write_built(site.folder)
    site.pass_time()
    assert (await site.get("/app/"))[0] == 200


async def test_new_build_takes_over_and_files_of_the_one_before_stay(built: Site) -> None:
    await built.get("/app/")
    shutil.rmtree(built.folder)
    write_built(built.folder, index="another page", script="assets/index-Def456.js", stamp="two")
    assert (await built.get("/app/"))[2].decode() == INDEX, "looked at again too soon"
    built.pass_time()
    assert (await built.get("/app/"))[2] == b"another page"
    assert [(await built.get(f"/app/{name}"))[0] for name in (SCRIPT, "assets/index-Def456.js")] == [200, 200]


async def test_new_asset_is_found_although_its_page_was_not_served_here(built: Site) -> None:
    """Another frontend has given out the page that names it."""
    await built.get("/app/")
    write_built(built.folder, index="another page", script="assets/index-Def456.js", stamp="two")
    built.pass_time()
    assert (await built.get("/app/assets/index-Def456.js"))[0] == 200


async def test_placeholder_shows_a_running_build_and_reloads(site: Site) -> None:
    write_state(site.folder, "building", "The web page is being built.", "It takes a <minute>: `make page`.")
    status, headers, body = await site.get("/app/nodes")
    text = body.decode()
    assert (status, headers["Retry-After"], headers["Cache-Control"]) == (503, "1", "no-store")
    assert '<meta http-equiv="refresh" content="1">' in text
    assert "The web page is being built." in text
    assert "It takes a &lt;minute&gt;: <code>make page</code>." in text
    assert "<script" not in text
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


@pytest.mark.parametrize("state", ["failed", "no_node"])
async def test_placeholder_shows_why_there_is_no_page_and_what_to_do(site: Site, state: str) -> None:
    write_state(site.folder, state, "It did not work.", "Do `this`.")
    status, _, body = await site.get("/app/")
    assert status == 503
    assert "It did not work." in body.decode()
    assert "<code>this</code>" in body.decode()
    assert "refresh" not in body.decode()


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"state": 1'])
async def test_placeholder_without_a_build_state_shows_how_to_build_the_page(site: Site, content: str | None) -> None:
    if content is not None:
        site.folder.mkdir()
        (site.folder / "state.json").write_text(content)
    status, _, body = await site.get("/app/")
    assert status == 503
    assert "The web page has not been built." in body.decode()
    assert "<code>make page</code>" in body.decode()
    assert (await site.get(f"/app/{SCRIPT}"))[0] == 404


async def test_root_sends_browsers_to_the_page_and_tells_programs_where_things_are(built: Site) -> None:
    status, headers, _ = await built.get("/", **HTML)
    assert (status, headers["Location"], headers["Vary"]) == (307, "/app/", "accept")
    status, headers, body = await built.get("/", accept="*/*")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert b'"page": "/app/"' in body
    status, headers, _ = await built.get("/app")
    assert (status, headers["Location"]) == (308, "/app/")


@pytest.mark.behaviour("PAGE-8")
async def test_page_is_there_while_its_frontend_starts(tmp_path: Path) -> None:
    async with starting() as frontend:
        site = Site(frontend, tmp_path / "built")
        write_built(site.folder)
        assert (await site.get("/api/nodes"))[0] == 503
        assert [(await site.get(path))[0] for path in ("/app/", f"/app/{SCRIPT}", "/")] == [200] * 3


def starting() -> Any:
    """One that waits for a PostgreSQL that never comes."""
    return running_frontend(NO_DATABASE, waits=False)


async def test_metrics_know_the_page_under_few_names(built: Site) -> None:
    for path in ("/app/", "/app/nodes", "/app/none/at/all"):
        await built.get(path)
    _, _, body = await built.get("/metrics")
    assert b'route="/app/{path}"' in body
    assert b"/app/none" not in body
