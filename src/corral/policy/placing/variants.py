"""Chooses the variant of a gallery's model that suits the machines which would run it.

    candidates   the variants of an entry, and the entry itself (the base)
    filter       a machine has a build of its backend, and memory for it; the base is never left out
    rank         a machine with a card before one without, the preferred engine of its hardware, features that make
                 serving faster, the larger size; an unknown size ranks below the base

The machines are the nodes that may be given the model, not the frontend that answers. They differ; the best pair of
a machine and a variant decides, because the placement will find that machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from corral.domain.errors import NotFound
from corral.domain.node import Node
from corral.policy.budget import parse_stored_budget
from corral.policy.catalog import find_capability
from corral.policy.placing.placement import format_size

# Preferred backends by the first word of a capability.
_CARD = ("vllm", "sglang", "llama-cpp")
_ENGINES = {
    "nvidia": _CARD,
    "amd": _CARD,
    "intel": _CARD,
    "metal": ("mlx", "llama-cpp"),
    "vulkan": ("llama-cpp",),
}
_ENGINES_DEFAULT = ("llama-cpp", "vllm", "sglang")
# Tags of builds that answer faster with the same weights, best first.
FEATURES = ("dflash", "mtp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVariant:
    """Describes one variant of a gallery model: its backend, memory and tags. `memory_bytes` None is unknown."""

    model: str
    backend: str
    memory_bytes: int | None = None
    tags: tuple[str, ...] = ()
    is_base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateMachine:
    """Describes a node that may get a gallery model, to choose the variant: memory, GPU, available backends."""

    node: str
    capability: str
    # Memory of the card if there is one of its own, else of the machine; None is unknown and excludes nothing.
    memory_bytes: int | None
    has_card: bool
    backends: frozenset[str] | None = None
    # Backends whose build for this machine makes no use of the card, and the RAM that they have instead.
    processor_backends: frozenset[str] = frozenset()
    ram_bytes: int | None = None

    @classmethod
    def from_node(
        cls,
        node: Node,
        backends: frozenset[str] | None = None,
        processor_backends: frozenset[str] = frozenset(),
    ) -> CandidateMachine:
        """Return the node as a machine. Its budget caps its card; running replicas do not count, because they may
        make room."""
        hardware = node.hardware
        ceiling = parse_stored_budget(node.budget).compute_ceiling(hardware.total_vram)
        card_bytes = hardware.total_vram if ceiling is None else ceiling
        return cls(
            node=node.name,
            capability=find_capability(hardware),
            memory_bytes=card_bytes if hardware.total_vram else hardware.total_ram,
            has_card=bool(hardware.total_vram) and not hardware.unified_memory,
            backends=backends,
            processor_backends=processor_backends,
            ram_bytes=hardware.total_ram,
        )

    def get_memory(self, backend: str) -> int | None:
        """Return the memory in which this backend keeps its models here; None is unknown."""
        return self.ram_bytes if backend in self.processor_backends else self.memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantVerdict:
    """Says on which nodes one variant of a gallery model fits, in a sentence."""

    variant: ModelVariant
    fits_on: tuple[str, ...]
    sentence: str

    @property
    def fits(self) -> bool:
        return bool(self.fits_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantChoice:
    """Holds the chosen variant of a gallery model, the verdict on each variant, and warnings."""

    variant: ModelVariant
    # All candidates, in the order of the gallery, the base first.
    verdicts: tuple[VariantVerdict, ...]
    warnings: tuple[str, ...] = ()
    is_pinned: bool = False


def choose_variant(
    variants: Sequence[ModelVariant], machines: Iterable[CandidateMachine], *, requested: str = "", pinned: str = ""
) -> VariantChoice:
    """Choose one of `variants`, of which exactly one is the base.

    `requested` must exist: a request that cannot be met is an error. `pinned` was recorded by an earlier
    installation; one that has vanished from the gallery is dropped with a warning, because the model has to stay
    installable.
    """
    ordered = sorted(variants, key=lambda variant: not variant.is_base)
    known = {variant.model: variant for variant in ordered}
    targets = list(machines)
    verdicts = tuple(_judge(variant, targets) for variant in ordered)
    warnings: list[str] = []
    if requested:
        if requested not in known:
            raise _make_unknown_error(requested, known)
        return _make_choice(known[requested], verdicts, warnings, is_pinned=True)
    if pinned in known:
        return _make_choice(known[pinned], verdicts, warnings, is_pinned=True)
    if pinned:
        warnings.append(
            f"The variant {pinned} that was chosen before is no longer in the gallery; Corral chose another one."
        )
    best = max(verdicts, key=lambda verdict: _find_best_rank(verdict.variant, targets))
    return _make_choice(best.variant, verdicts, warnings, is_pinned=False)


def _make_choice(
    variant: ModelVariant, verdicts: Sequence[VariantVerdict], warnings: list[str], *, is_pinned: bool
) -> VariantChoice:
    """Return the choice. A variant that does not fit is taken on request or without an alternative, but with a
    warning."""
    verdict = next(one for one in verdicts if one.variant is variant)
    if not verdict.fits:
        warnings.append(verdict.sentence)
    return VariantChoice(variant=variant, verdicts=tuple(verdicts), warnings=tuple(warnings), is_pinned=is_pinned)


def _make_unknown_error(requested: str, known: Iterable[str]) -> NotFound:
    near = get_close_matches(requested[:200], list(known), n=1, cutoff=0.5)
    return NotFound(
        f"There is no variant {requested[:200]!r}.",
        hint=f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}.",
        code="unknown_variant",
    )


def _judge(variant: ModelVariant, machines: Sequence[CandidateMachine]) -> VariantVerdict:
    if not machines:
        return VariantVerdict(variant=variant, fits_on=(), sentence=f"There is no node for {variant.model}.")
    able = [machine for machine in machines if _has_build(machine, variant)]
    if not able:
        return VariantVerdict(variant=variant, fits_on=(), sentence=f"No node has a build of {variant.backend}.")
    fitting = tuple(machine.node for machine in able if _has_memory(machine, variant))
    if fitting:
        on = "node" if len(fitting) == 1 else "nodes"
        sentence = f"{variant.model} fits on {len(fitting)} {on}."
        return VariantVerdict(variant=variant, fits_on=fitting, sentence=sentence)
    most = max(machine.get_memory(variant.backend) or 0 for machine in able)
    return VariantVerdict(
        variant=variant,
        fits_on=(),
        sentence=f"{variant.model} needs {format_size(variant.memory_bytes or 0)},"
        f" the largest node has {format_size(most)}.",
    )


def _has_build(machine: CandidateMachine, variant: ModelVariant) -> bool:
    return machine.backends is None or not variant.backend or variant.backend in machine.backends


def _has_memory(machine: CandidateMachine, variant: ModelVariant) -> bool:
    memory_bytes = machine.get_memory(variant.backend)
    return variant.memory_bytes is None or memory_bytes is None or variant.memory_bytes <= memory_bytes


# Fits (the base always takes part), its size is known, a card, the engine, the feature, the size; the base wins ties.
_Rank = tuple[int, int, int, int, int, int]


def _find_best_rank(variant: ModelVariant, machines: Sequence[CandidateMachine]) -> tuple[_Rank, bool]:
    fitting = [machine for machine in machines if _has_build(machine, variant) and _has_memory(machine, variant)]
    if not fitting:
        # Below everything that fits, and the base above the others.
        return (0, 0, 0, 0, 0, 0), variant.is_base
    return max(_rank(variant, machine) for machine in fitting), variant.is_base


def _rank(variant: ModelVariant, machine: CandidateMachine) -> _Rank:
    likes = _ENGINES.get(machine.capability.partition("-")[0], _ENGINES_DEFAULT)
    engine = len(likes) - likes.index(variant.backend) if variant.backend in likes else 0
    feature = max((len(FEATURES) - FEATURES.index(tag) for tag in variant.tags if tag in FEATURES), default=0)
    is_known = variant.memory_bytes is not None or variant.is_base
    on_card = machine.has_card and variant.backend not in machine.processor_backends
    return 1, int(is_known), int(on_card), engine, feature, variant.memory_bytes or 0
