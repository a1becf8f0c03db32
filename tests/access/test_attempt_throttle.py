"""What tries are counted by."""

from __future__ import annotations

import pytest

from corral.access.sessions import to_network


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a socket", "a socket"),
    ],
)
def test_tries_are_counted_by_ipv4_address_or_ipv6_network(address: str, network: str) -> None:
    assert to_network(address) == network
