"""Judges addresses that a stranger's URL must not lead to: this machine, the local network, and a cloud's metadata
service.

Pure, so a host is judged by its text. A public name may still lead to a private address: a caller that can query the
name service checks the result with the same function.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import parse_qsl

# Names that never leave a site, whatever the name service says.
_LOCAL_ENDINGS = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "home.arpa")
# IPv4-compatible addresses, and those that a NAT64 translates: the last 32 bits are an IPv4 address.
_EMBEDDING = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_SITE_LOCAL = IPv6Network("fec0::/10")
# The system's resolver takes 127.1, 0x7f000001 and 2130706433 for addresses.
_NUMBER = re.compile(r"0x[0-9a-f]+|[0-9]+", re.ASCII)
# In the name of a parameter, a header or a variable.
SECRET_WORDS = re.compile(r"auth|token|key|secret|password|cookie|credential", re.IGNORECASE)
# Parameters of a signed URL: S3 and what speaks its protocol, Google's storage, and CloudFront.
_SIGNATURES = frozenset({"x-amz-signature", "x-goog-signature", "signature"})
_SIGNED_NAME = re.compile(r"x-(?:amz|goog)-[a-z-]+|awsaccesskeyid|key-pair-id")


def is_private_address(host: str) -> bool:
    """Return whether a host (a name or an address, with or without brackets) is not one of the open internet.

    An empty text and a name without a dot are private: neither can be anything but local.
    """
    name = host.strip().strip("[]").rstrip(".").lower()
    if not name:
        return True
    address = _parse_address(name)
    if address is not None:
        return not _is_open(address)
    return "." not in name or any(name == ending or name.endswith(f".{ending}") for ending in _LOCAL_ENDINGS)


def has_password(address: str) -> bool:
    """Return whether an address holds a user name or a password before its host, as in https://user:password@host/."""
    scheme, found, rest = address.partition("://")
    return bool(found) and scheme.lower() != "hf" and "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]


def holds_secret(address: str, *, allows_signed: bool = False) -> bool:
    """Return whether an address holds a user name, a password, or a parameter whose name is that of a secret.

    `allows_signed`: the parameters of a signed URL of an object store are none; it opens one file until it expires.
    """
    if has_password(address):
        return True
    query = address.partition("#")[0].partition("?")[2]
    names = [name.lower() for name, _ in parse_qsl(query)]
    is_signed = allows_signed and not _SIGNATURES.isdisjoint(names)
    return any(SECRET_WORDS.search(name) and not (is_signed and _SIGNED_NAME.fullmatch(name)) for name in names)


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        # The embedded IPv4 address is where it leads.
        inner = address.ipv4_mapped or address.sixtofour or _extract_embedded(address)
        if inner is not None:
            return _is_open(inner)
        if address.teredo is not None:
            return all(_is_open(part) for part in address.teredo)
        if address in _SITE_LOCAL:
            return False
    return address.is_global and not address.is_multicast


def _extract_embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address at the end of an IPv4-compatible or NAT64 address; None for any other address."""
    is_embedding = any(address in network for network in _EMBEDDING)
    return IPv4Address(int(address) & 0xFFFFFFFF) if is_embedding else None


def _parse_address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name.partition("%")[0])
    except ValueError:
        return _parse_old_address(name)


def _parse_old_address(name: str) -> IPv4Address | None:
    """Parse the spellings of `inet_aton`: one to four numbers, decimal, octal or hexadecimal; the last one fills the
    rest."""
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts) or any(len(part) > 20 for part in parts):
        return None
    numbers = [_parse_number(part) for part in parts]
    if any(number is None for number in numbers):
        return None
    *heads, last = [number for number in numbers if number is not None]
    value = last
    for index, head in enumerate(heads):
        if head > 255:
            return None
        value |= head << (24 - 8 * index)
    return IPv4Address(value) if last < 256 ** (4 - len(heads)) and value < 2**32 else None


def _parse_number(text: str) -> int | None:
    base = 16 if text.startswith("0x") else 8 if text.startswith("0") and len(text) > 1 else 10
    try:
        return int(text, base)
    except ValueError:
        return None
