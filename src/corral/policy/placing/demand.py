"""What is asked of a placement: a model, what a replica of it takes, and which nodes may be asked at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.domain.model import Need, StoredFile
from corral.domain.node import Node, NodeId


class Engine(NamedTuple):
    """The build of the backend that a node would run. `fetch_bytes` is what an installation would download."""

    is_installed: bool
    fetch_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Replicas of one model that are to be placed together, each on the node that has it ready first."""

    model: str
    # The model's present one; replicas with another take no slot. Empty: all of them count.
    run_hash: str = ""
    # What one replica takes; a function where it depends on the node.
    need: Need | Callable[[Node], Need] = field(default_factory=Need)
    # Its contents. None: not known yet, and the need's `payload_bytes` has to do.
    files: tuple[StoredFile, ...] | None = None
    # The backend's name, for sentences, and who has a build of it. A node that is missing has none; None: not asked.
    backend: str = ""
    engines: Mapping[NodeId, Engine] | None = None

    selector: Mapping[str, str] = field(default_factory=dict)
    # These nodes and no others; an empty set is no node. None: any.
    only: frozenset[NodeId] | None = None
    # Nodes that are left out, each with the reason as a sentence.
    excluded: Mapping[NodeId, str] = field(default_factory=dict)
    count: int = 1
    # At most one on each node, those that are there included.
    spreads: bool = False
    groups: frozenset[str] = frozenset()
    # How many threads a replica wants. None: half of those that are free.
    threads: int | None = None

    # Nodes whose worker is starting this very replica anew, because its process died: it costs nothing there, and
    # anywhere else it would be one more.
    returning: frozenset[NodeId] = frozenset()

    # Read for each decision: an operator's switch counts at once. Off: a full disk is a warning.
    is_disk_enforced: bool = True
    # Files lie in a folder that nodes share: nothing is copied.
    has_shared_models: bool = False
    # Bytes per second at which a node was last seen to fetch.
    bandwidths: Mapping[NodeId, float] = field(default_factory=dict)
    # How long the model last took to become ready, its files being there.
    load_s: float | None = None
