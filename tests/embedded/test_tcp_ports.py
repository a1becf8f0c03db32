"""Why a server cannot listen somewhere: each cause has its own sentence."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from corral.embedded.tcp_ports import check_port
from corral.runtime.bind_errors import AddressUnusable, PortHeld


def test_check_port_names_the_holder_when_the_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortHeld, match=rf"Port {port} on 127.0.0.1 is held by .*{os.getpid()}"):
            check_port("127.0.0.1", port)


def test_check_port_says_not_an_address_of_this_machine_for_a_foreign_address() -> None:
    # 192.0.2.0/24 is kept for documentation: no machine has one of these.
    with pytest.raises(AddressUnusable, match=r"192\.0\.2\.7 is not an address of this machine"):
        check_port("192.0.2.7", 0)


def test_check_port_says_cannot_be_resolved_for_an_unknown_name() -> None:
    with pytest.raises(AddressUnusable, match=r"nohost\.invalid cannot be resolved"):
        check_port("nohost.invalid", 0)


def test_check_port_says_may_not_listen_when_the_system_denies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "bind", deny)
    with pytest.raises(AddressUnusable, match="This user may not listen on port 80") as caught:
        check_port("127.0.0.1", 80)
    assert "--port" in (caught.value.hint or "")
