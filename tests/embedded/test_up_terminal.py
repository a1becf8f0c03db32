"""What `corral up` says when it is ready, and to whom."""

from __future__ import annotations

import io
from pathlib import Path

from corral.embedded.child_process import HttpEndpoint
from corral.embedded.home import HomeLayout
from corral.embedded.up_terminal import UpTerminal

KEY = "ck_of-the-tests"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_login_link_is_printed_on_a_terminal_only() -> None:
    terminal, log = Terminal(), io.StringIO()
    place = HttpEndpoint(host="127.0.0.1", port=8080)
    UpTerminal(terminal, log).print_ready(HomeLayout(Path("home")), place, key=KEY, elapsed_s=1.0, is_detached=False)
    assert f"  page        http://127.0.0.1:8080/app/#key={KEY}\n" in terminal.getvalue()
    assert "  page        http://127.0.0.1:8080/app/   (`corral open` signs you in)\n" in log.getvalue()
    assert KEY not in log.getvalue()


def test_closed_terminal_does_not_disturb_the_cluster() -> None:
    closed, log = io.StringIO(), io.StringIO()
    closed.close()
    place = HttpEndpoint(host="127.0.0.1", port=8080)
    UpTerminal(closed, log).print_ready(HomeLayout(Path("home")), place, key=KEY, elapsed_s=1.0, is_detached=True)
    assert "Corral is ready at" in log.getvalue()
