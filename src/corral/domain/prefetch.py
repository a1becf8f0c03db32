"""What a worker wants on its disk ahead of time, and what became of each entry of its list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from corral.domain.operation import OperationId

# A list of a worker; more is a mistake, and each entry may become an operation.
PREFETCH_MAX = 50


class PrefetchKind(StrEnum):
    BACKEND = "backend"
    MODEL = "model"


class PrefetchState(StrEnum):
    PRESENT = "present"  # the node has it
    REQUESTED = "requested"  # an operation brings it, or has tried to a moment ago
    REFUSED = "refused"  # not now; the worker asks again later


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchEntry:
    kind: PrefetchKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchResult:
    entry: PrefetchEntry
    state: PrefetchState
    message: str
    operation_id: OperationId | None = None
