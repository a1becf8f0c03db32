"""Where a content can be had, and which place is asked next. No waiting and no network here.

A place that fails is left alone for a while, twice as long each time; one that told a wrong chunk is not asked again,
unless it is the library, which looks at its copy and fetches it anew. A node that is still fetching may not have a
chunk yet: as long as it moves, it is worth waiting for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from corral.bus.messages import BlobPlace
from corral.transfer.http import shown

_FIRST_REST_S = 1.0
_LONGEST_REST_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The frontends that this worker knows, and what it shows them."""

    urls: tuple[str, ...]
    credential: str = field(repr=False)
    # None until the node has been registered.
    node_id: Callable[[], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where one content is, and its list of chunks: empty if this place is not believed about that."""

    url: str
    chunks_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Through a proxy, if there is one: other nodes and the frontends are never behind it.
    is_outside: bool = False
    is_node: bool = False
    # Where the frontends are told that bytes from here were wrong; empty: nobody is.
    damage_url: str = ""


@dataclass(slots=True, kw_only=True)
class Standing:
    """How one place has done so far in this transfer."""

    address: Address
    is_struck: bool = False
    # Not before this moment.
    rests_until: float = 0.0
    # The last one, for people.
    trouble: str = ""
    _rest_s: float = 0.0
    # Of a node that is fetching itself: how many chunks it has, and since when.
    _has: int = -2
    _moved_at: float = 0.0

    def good(self) -> None:
        self._rest_s = 0.0

    def failed(self, trouble: str, now: float) -> None:
        self.trouble = trouble
        if now < self.rests_until:
            # Several requests failed together: that is one failure.
            return
        self._rest_s = min(_LONGEST_REST_S, max(_FIRST_REST_S, 2 * self._rest_s))
        self.rests_until = now + self._rest_s

    def not_yet(self, has: int, now: float, patience_s: float) -> None:
        """It has so many chunks, and the wanted one is not among them; -1: it has not begun."""
        if has != self._has:
            self._has, self._moved_at = has, now
        elif now - self._moved_at > patience_s:
            self.failed(f"{shown(self.address.url)} does not get any further", now)

    def strike(self, trouble: str) -> None:
        self.trouble, self.is_struck = trouble, True


class Standings:
    """The places of one content, in the order in which they are asked."""

    def __init__(self) -> None:
        self._all: dict[str, Standing] = {}

    def add(self, addresses: Iterable[Address]) -> None:
        for address in addresses:
            known = self._all.get(address.url)
            if known is None:
                self._all[address.url] = Standing(address=address)
            elif known.address.headers != address.headers:
                # A fresh ticket. A place that was struck stays so.
                known.address = address

    def best(self, now: float) -> Standing | None:
        """The first one that is not at rest."""
        return next((each for each in self._all.values() if not each.is_struck and each.rests_until <= now), None)

    def next_at(self) -> float | None:
        """When one will have rested; None if there is none left."""
        return min((each.rests_until for each in self._all.values() if not each.is_struck), default=None)

    @property
    def are_struck(self) -> bool:
        """Whether places are known, and all of them have told wrong bytes."""
        return bool(self._all) and all(each.is_struck for each in self._all.values())

    def tellers(self) -> list[Standing]:
        """Those whose word about chunks is believed."""
        return [each for each in self._all.values() if each.address.chunks_url]

    def troubles(self) -> str:
        """Why it is not to be had, for people."""
        told = [each.trouble for each in self._all.values() if each.trouble]
        return "; ".join(dict.fromkeys(told)) or "no place is known that has it"


def addresses(places: Iterable[BlobPlace], sha256: str, library: Library) -> list[Address]:
    """The addresses of one content, in the order of the places. The library is always the last resort: its word about
    chunks is needed, whoever delivers them."""
    found: list[Address] = []
    for place in places:
        if place.sha256 not in ("", sha256):
            continue
        if place.kind == "node":
            url = place.url if "://" in place.url else f"http://{place.url}"
            headers = {"Authorization": f"Bearer {place.ticket}"} if place.ticket else {}
            found.append(Address(url=f"{url.rstrip('/')}/v1/blobs/{sha256}", headers=headers, is_node=True))
        elif place.kind == "storage":
            # A signed address has a query, and is good for one thing only.
            beside = "" if "?" in place.url else f"{place.url}.chunks"
            damage_url = next((each.damage_url for each in _of_library(sha256, library, library.urls)), "")
            found.append(Address(url=place.url, chunks_url=beside, is_outside=True, damage_url=damage_url))
        elif place.kind == "library":
            found += _of_library(sha256, library, (place.url,) if place.url else library.urls)
    return [*found, *_of_library(sha256, library, library.urls)]


def _of_library(sha256: str, library: Library, frontends: Iterable[str]) -> list[Address]:
    node_id = library.node_id()
    if node_id is None:
        return []
    headers = {"Authorization": f"Bearer {library.credential}"}
    found = []
    for frontend in frontends:
        url = f"{frontend.rstrip('/')}/api/node/{quote(node_id, safe='')}/blobs/{sha256}"
        found.append(Address(url=url, chunks_url=f"{url}/chunks", headers=headers, damage_url=f"{url}/damage"))
    return found
