"""Compares names and addresses of nodes: names that people would confuse, and whether an address is a node's own.

A replica is reached at the host that its node has registered; its worker chooses the port only. Pure, so hosts are
compared by their text: a name and the address that it leads to count as two hosts.
"""

from __future__ import annotations

import unicodedata
from ipaddress import ip_address
from urllib.parse import urlsplit

from corral.domain.errors import InvalidRequest
from corral.domain.node import Node

NAME_MAX = 255


def fold_name(name: str) -> str:
    """Return the name without what people overlook: case, blanks at the ends or in a row, forms of one character."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def check_new_name(name: str) -> None:
    """Raise `InvalidRequest` unless the name is as strict as that of a model. Names from before stay valid."""
    if not 1 <= len(name) <= NAME_MAX or not name.isprintable() or name != name.strip():
        raise InvalidRequest(
            f"{name[:60]!r} is not a name for a node.",
            hint=f"1 to {NAME_MAX} printable characters, none of them a blank at an end. Choose another --name.",
            code="bad_name",
        )


def parse_host(address: str) -> str:
    """Return the host of `host:port` in one spelling: lower case, no brackets, all loopback addresses as one. An
    address that cannot be read has no host."""
    try:
        parts = urlsplit(f"//{address}")
        name = parts.hostname or ""
    except ValueError:
        return ""
    return _normalise_host(name)


def _normalise_host(host: str) -> str:
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
    """Return whether an engine at this address is on the host that the node has registered."""
    host = parse_host(address)
    return bool(host) and host == parse_host(node.address)


def describe_foreign_address(node_name: str, registered: str, address: str) -> str:
    return (
        f"Its worker says that it is at {address or 'no address'}, which is not on the host that {node_name} has"
        f" registered ({parse_host(registered) or 'none'}). Start the worker with an --address and an"
        " --engine-host that agree."
    )


def describe_address(node: Node) -> str:
    """Return a sentence if the node registered another host than the one its registration came from, else ''."""
    registered, seen = parse_host(node.address), _normalise_host(node.seen_address)
    if not registered or not seen or registered == seen:
        return ""
    return f"It registered the address {registered}, and its registration came from {seen}."
