"""Commands run in this process, against a stand-in frontend in a thread."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from corral.app.settings import list_known_variables
from corral.cli.main import run
from tests.unit.client.standin import KEY, StandIn, served_in_a_thread


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


class Keyboard(io.StringIO):
    """Standard input that claims to be a terminal, or not."""

    def __init__(self, text: str, *, is_terminal: bool) -> None:
        super().__init__(text)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


Corral = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Hide the settings, logins and clusters of the user who runs the tests."""
    for name in list_known_variables():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def corral(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Corral:
    """Type a command; get its exit code and what it printed."""

    def type_in(*words: str, typed: str = "", is_terminal: bool = False) -> Outcome:
        monkeypatch.setattr(sys, "stdin", Keyboard(typed, is_terminal=is_terminal))
        capsys.readouterr()
        code = run(list(words))
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return type_in


@pytest.fixture
def frontend(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with served_in_a_thread(StandIn()) as standin:
        monkeypatch.setenv("CORRAL_URL", standin.url)
        monkeypatch.setenv("CORRAL_KEY", KEY)
        yield standin


def bodies(frontend: StandIn, route: str) -> list[Any]:
    method, path = route.split(" ")
    return [seen.body for seen in frontend.seen if (seen.method, seen.path) == (method, path)]
