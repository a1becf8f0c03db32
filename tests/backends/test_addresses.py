"""Addresses that must not be reached on a stranger's word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.adapters.http import HttpFetcher
from corral.backends.sources import refuse_private
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.policy.addresses import is_private_address

pytestmark = pytest.mark.behaviour("OPS-94")

PRIVATE = [
    "",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
    "metadata.google.internal",
    "printer.local",
    "router",
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "[::1]",
    "::",
    "fe80::1%eth0",
    "fd00::1",
    "::ffff:10.0.0.1",
    "2002:7f00:1::",
    "[::127.0.0.1]",
    "::10.0.0.1",
    "[64:ff9b::7f00:1]",
    "64:ff9b::a00:1",
    "fec0::1",
    "224.0.0.1",
    "255.255.255.255",
]
OPEN = [
    "files.example",
    "8.8.8.8",
    "134744072",
    "2606:4700::1111",
    "[2606:4700::1111]",
    "64:ff9b::808:808",
    "notlocal.example",
    "1.2.3.4.5.example",
]


class Names(HttpFetcher):
    """A name service with one name in it."""

    async def look_up_addresses(self, host: str) -> tuple[str, ...]:
        return ("93.184.216.34", "10.0.0.7") if host == "inner.example" else ("93.184.216.34",)


@pytest.mark.parametrize("host", PRIVATE)
def test_inner_address_is_private_in_every_spelling(host: str) -> None:
    assert is_private_address(host)


@pytest.mark.parametrize("host", OPEN)
def test_address_of_the_open_internet_is_not_private(host: str) -> None:
    assert not is_private_address(host)


@given(st.text(max_size=40))
def test_private_address_check_accepts_any_text(host: str) -> None:
    assert is_private_address(host) in (True, False)


@given(st.ip_addresses(network="10.0.0.0/8"))
def test_number_of_a_private_address_is_as_private_as_its_dots(address: object) -> None:
    assert is_private_address(str(address))
    assert is_private_address(str(int(address)))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "uri",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://u:p@10.0.0.1/x.tar.gz",
        "http://127.0.0.1:9/x.zip",
        "oci://localhost:5000/a/b:c",
        "10.0.0.1:5000/a/b:c",
        "oci+http://192.168.0.2:5000/a",
        "https://inner.example/x.zip",
        "inner.example/a/b:c",
        "http:///x",
    ],
)
async def test_users_address_that_leads_inside_is_refused(uri: str) -> None:
    with pytest.raises(Unprocessable) as caught:
        await refuse_private(uri, Names())
    assert caught.value.slug == "private_address"


@pytest.mark.parametrize("uri", ["https://files.example/x.zip", "registry.example/a/b:c", "/opt/engine"])
async def test_users_address_that_leads_outside_is_taken(uri: str) -> None:
    await refuse_private(uri, Names())


async def test_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        await refuse_private("http://[x", Names())


async def test_fetcher_resolves_names_with_the_system_resolver() -> None:
    assert "127.0.0.1" in await HttpFetcher().look_up_addresses("localhost")
    assert await HttpFetcher().look_up_addresses("no-such-name.invalid") == ()
