"""What `corral up` says when it is ready, and to whom."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from corral.embedded.environment import Place
from corral.embedded.home import Home
from corral.embedded.talk import Talk

KEY = "ck_of-the-tests"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.behaviour("PAGE-16")
def test_only_a_terminal_is_shown_the_link_that_comes_in() -> None:
    terminal, log = Terminal(), io.StringIO()
    place = Place(host="127.0.0.1", port=8080)
    Talk(terminal, log).ready(Home(Path("home")), place, key=KEY, elapsed_s=1.0, is_detached=False)
    assert f"  page        http://127.0.0.1:8080/app/#key={KEY}\n" in terminal.getvalue()
    assert "  page        http://127.0.0.1:8080/app/   (`corral open` comes in)\n" in log.getvalue()
    assert KEY not in log.getvalue()


@pytest.mark.behaviour("PAGE-16")
def test_a_reader_that_has_gone_disturbs_nobody() -> None:
    closed, log = io.StringIO(), io.StringIO()
    closed.close()
    place = Place(host="127.0.0.1", port=8080)
    Talk(closed, log).ready(Home(Path("home")), place, key=KEY, elapsed_s=1.0, is_detached=True)
    assert "Corral is ready at" in log.getvalue()
