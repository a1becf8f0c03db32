"""Whose address is it? A replica is reached at the host that its node has registered; its worker chooses the port only.

Pure, so hosts are compared by their text: a name and the address that it leads to count as two hosts.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from corral.domain.node import Node


def host_of(address: str) -> str:
    """Return the host of `host:port` in one spelling: lower case, no brackets, all loopback addresses as one. An
    address that cannot be read has no host."""
    try:
        parts = urlsplit(f"//{address}")
        name = parts.hostname or ""
    except ValueError:
        return ""
    return _one_spelling(name)


def _one_spelling(host: str) -> str:
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return "127.0.0.1"
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return name
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return "127.0.0.1" if address.is_loopback else str(address)


def is_own_address(node: Node, address: str) -> bool:
    """Whether an engine at this address is on the host that the node has registered."""
    host = host_of(address)
    return bool(host) and host == host_of(node.address)


def foreign_address_sentence(node_name: str, registered: str, address: str) -> str:
    return (
        f"Its worker says that it is at {address or 'no address'}, which is not on the host that {node_name} has"
        f" registered ({host_of(registered) or 'none'}). Start the worker with an --address and an --engine-host that"
        " agree."
    )


def address_note(node: Node) -> str:
    """Return a sentence if the node registered another host than the one its registration came from, else ''."""
    registered, seen = host_of(node.address), _one_spelling(node.seen_address)
    if not registered or not seen or registered == seen:
        return ""
    return f"It registered the address {registered}, and its registration came from {seen}."
