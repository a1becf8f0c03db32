"""Why `corral serve` and `corral worker` cannot listen: each cause has its own sentence, as with `corral up`."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable

import pytest

from corral.app.process_group import hold_port
from corral.app.process_group import listen as listen_frontend
from corral.runtime.bind_errors import AddressUnusable, PortHeld
from corral.worker.http_server import open_listener as listen_worker

pytestmark = [
    pytest.mark.parametrize(
        ("listen", "host_flag", "port_flag"),
        [
            (listen_frontend, "--host", "--port"),
            (hold_port, "--host", "--port"),
            (listen_worker, "--http-host", "--http-port"),
        ],
        ids=["serve", "serve-with-processes", "worker"],
    ),
]
Listen = Callable[[str, int], socket.socket]


def test_listen_names_the_holder_when_the_port_is_taken(listen: Listen, host_flag: str, port_flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortHeld, match=rf"Port {port} on 127.0.0.1 is held by .*{os.getpid()}") as caught:
            listen("127.0.0.1", port)
    assert port_flag in (caught.value.hint or "")
    assert host_flag not in (caught.value.hint or "")


def test_listen_says_not_an_address_of_this_machine_for_a_foreign_address(
    listen: Listen, host_flag: str, port_flag: str
) -> None:
    # 192.0.2.0/24 is kept for documentation: no machine has one of these.
    with pytest.raises(AddressUnusable, match=r"192\.0\.2\.7 is not an address of this machine") as caught:
        listen("192.0.2.7", 0)
    assert host_flag in (caught.value.hint or "")
    assert port_flag not in (caught.value.hint or "")


def test_listen_says_cannot_be_resolved_for_an_unknown_name(listen: Listen, host_flag: str, port_flag: str) -> None:
    with pytest.raises(AddressUnusable, match=r"nohost\.invalid cannot be resolved") as caught:
        listen("nohost.invalid", 0)
    assert host_flag in (caught.value.hint or "")
    assert port_flag not in (caught.value.hint or "")


def test_listen_says_may_not_listen_when_the_system_denies_it(
    listen: Listen, host_flag: str, port_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "bind", deny)
    with pytest.raises(AddressUnusable, match=r"This user may not listen on port 80 of 127\.0\.0\.1") as caught:
        listen("127.0.0.1", 80)
    assert port_flag in (caught.value.hint or "")
    assert host_flag not in (caught.value.hint or "")
