"""`corral open`: the link, and how a browser gets it."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
import webbrowser
from dataclasses import dataclass
from typing import Any

import pytest

from corral.cli.open import has_screen, make_link, open_in_browser
from tests.unit.cli.conftest import Corral
from tests.unit.client.standin import KEY, StandIn, json_answer

URL = "http://127.0.0.1:8080"
LINK = f"{URL}/app/#key={KEY}"
ME: dict[str, Any] = {
    "name": "admin", "scope": "admin", "key_id": "k1", "user_id": None, "node_id": None, "models": None, "limits": [],
}  # fmt: skip


@dataclass
class OpenedPages:
    addresses: list[str]
    started: list[threading.Thread]

    def all(self) -> list[str]:
        for thread in self.started:
            thread.join(timeout=30)
        return self.addresses


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> OpenedPages:
    """The addresses that the browser has to open; a stand-in for one follows them."""
    addresses: list[str] = []
    started: list[threading.Thread] = []

    def follow(address: str) -> None:
        with urllib.request.build_opener(_NoRedirects).open(address, timeout=30) as answer:
            addresses.append(answer.headers["Location"])

    def open_it(address: str, *_: Any) -> bool:
        addresses.append(address)
        started.append(threading.Thread(target=follow, args=(address,)))
        started[-1].start()
        return True

    monkeypatch.setattr(webbrowser, "open", open_it)
    return OpenedPages(addresses, started)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nothing."""

    def http_error_303(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        return fp


@pytest.fixture
def link(frontend: StandIn) -> str:
    """The link to a frontend that takes the key."""
    frontend.on("GET /api/me", json_answer(ME))
    return f"{frontend.url}/app/#key={KEY}"


def test_open_prints_no_link_with_key_that_is_refused(corral: Corral, frontend: StandIn, opened: OpenedPages) -> None:
    refusal = {"error": {"type": "not_authenticated", "code": "not_authenticated", "message": "It was revoked."}}
    frontend.on("GET /api/me", json_answer(refusal, 401))
    done = corral("open", "--key", KEY)
    assert (done.code, done.out) == (1, "")
    assert "It was revoked." in done.err
    assert opened.all() == []


def test_open_prints_no_link_without_a_responding_frontend(corral: Corral, opened: OpenedPages) -> None:
    done = corral("open", "--url", "http://127.0.0.1:1", "--key", KEY)
    assert (done.code, done.out) == (1, "")
    assert opened.all() == []


@pytest.mark.behaviour("PAGE-15")
def test_link_is_printed_with_the_key_behind_the_hash(corral: Corral, opened: OpenedPages, link: str) -> None:
    done = corral("open", "--key", KEY, "--no-browser")
    assert (done.code, done.out, done.err) == (0, f"{link}\n", "")
    assert opened.all() == []


@pytest.mark.behaviour("PAGE-15")
def test_browser_gets_the_link_without_the_key_on_its_command_line(
    corral: Corral, opened: OpenedPages, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    done = corral("open", "--key", KEY)
    assert (done.code, done.out) == (0, f"{link}\n")
    address, led_to = opened.all()
    assert address.startswith("http://127.0.0.1:")
    assert KEY not in address
    assert led_to == link


@pytest.mark.behaviour("PAGE-15")
def test_redirect_server_requires_the_secret_path(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[int] = []

    def guess(address: str) -> None:
        base = address.rpartition("/")[0]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{base}/guess", timeout=30)
        refused.append(caught.value.code)
        caught.value.close()
        urllib.request.build_opener(_NoRedirects).open(address, timeout=30).close()

    def open_it(address: str) -> bool:
        threading.Thread(target=guess, args=(address,)).start()
        return True

    monkeypatch.setattr(webbrowser, "open", open_it)
    assert open_in_browser(LINK)
    assert refused == [404]


@pytest.mark.behaviour("PAGE-15")
@pytest.mark.usefixtures("link")
def test_open_prints_the_link_without_a_browser(
    corral: Corral, opened: OpenedPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert corral("open", "--key", KEY).code == 0
    assert opened.all() == []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    done = corral("open", "--key", KEY)
    assert (done.code, done.err) == (0, "No browser could be opened. Open the link above in any browser.\n")


@pytest.mark.behaviour("PAGE-15")
def test_open_lets_the_page_ask_for_a_key_without_one(corral: Corral) -> None:
    done = corral("open", "--url", URL, "--json")
    assert (done.code, json.loads(done.out)) == (0, {"url": f"{URL}/app/"})
    assert "the page asks for one" in done.err


def test_key_of_any_letters_survives_the_link() -> None:
    assert make_link(URL, "a+b &#c") == f"{URL}/app/#key=a%2Bb%20%26%23c"


def test_screen_is_needed_except_where_there_always_is_one() -> None:
    assert not has_screen({}, "linux")
    assert has_screen({"WAYLAND_DISPLAY": "wayland-0"}, "linux")
    assert has_screen({}, "darwin")
