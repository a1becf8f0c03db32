"""Which address is advertised."""

from __future__ import annotations

import socket

import pytest

from corral.worker.address import choose_advertised_addresses, find_outward_host, format_host_port


def _advertised(
    configured: str | None, http_host: str = "0.0.0.0", *frontends: str, engine_host: str = "0.0.0.0"
) -> tuple[str, str]:
    found = choose_advertised_addresses(
        configured=configured,
        engine_host=engine_host,
        http_host=http_host,
        http_port=9001,
        frontends=frontends or ("http://127.0.0.1:8080",),
    )
    return found.address, found.http_address


def test_advertised_address_is_the_one_that_reaches_the_frontend_with_the_port_really_bound():
    assert _advertised(None) == ("127.0.0.1:9001", "127.0.0.1:9001")


@pytest.mark.parametrize(
    ("configured", "address", "http_address"),
    [
        ("gpu-a.example:7000", "gpu-a.example:7000", "gpu-a.example:9001"),
        ("gpu-a.example", "gpu-a.example:9001", "gpu-a.example:9001"),
        ("[fd00::5]:7000", "[fd00::5]:7000", "[fd00::5]:9001"),
    ],
)
def test_given_address_wins_and_gets_the_port_that_it_lacks(configured: str, address: str, http_address: str):
    assert _advertised(configured) == (address, http_address)


def test_port_that_is_open_on_one_address_only_is_advertised_there():
    assert _advertised("gpu-a:7000", "127.0.0.1") == ("gpu-a:7000", "127.0.0.1:9001")


@pytest.mark.behaviour("LOAD-62")
def test_worker_registers_the_one_address_that_its_engines_listen_on():
    assert _advertised(None, engine_host="10.0.0.7")[0] == "10.0.0.7:9001"
    assert _advertised("gpu-a:7000", engine_host="10.0.0.7")[0] == "gpu-a:7000"


def test_frontend_that_cannot_be_looked_up_is_passed_over():
    assert find_outward_host(["http://no-such-host.invalid:80", "http://127.0.0.1:1"]) == "127.0.0.1"
    assert find_outward_host(["http://no-such-host.invalid:80"]) == socket.gethostname()


def test_addresses_of_version_six_are_bracketed():
    assert format_host_port("fd00::1", 5) == "[fd00::1]:5"
    assert format_host_port("host", 5) == "host:5"
