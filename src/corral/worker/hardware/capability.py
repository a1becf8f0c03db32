"""One word for what a machine can run; backends name the words that they are built for.

    1 the setting            4 Linux on ARM with NVIDIA: nvidia-l4t…   7 NVIDIA: nvidia-cuda-13, -12
    2 the capability file    5 no GPU: default                         8 the vendor's word
    3 macOS                  6 at most 4 GiB of VRAM: default

Pure: the first match wins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CAPABILITY_FILE = "/run/corral/capability"
# A GPU below this holds no useful model beside its own buffers; the CPU build serves better.
SMALL_VRAM_BYTES = 4 << 30
_CUDA_MAJORS = (13, 12)
# The registry's column holds 64 characters.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFacts:
    """Holds what a machine's capability depends on: system, architecture, GPU, memory and CUDA versions."""

    system: str
    architecture: str
    gpu_vendor: str | None
    vram_bytes_total: int | None
    unified_memory: bool
    # Majors of the CUDA toolkits that are installed, and the newest major that the driver runs.
    cuda_toolkits: frozenset[int]
    cuda_driver: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityOverride:
    """Holds a capability that somebody has set, and where, for the warning if it is not usable."""

    text: str | None
    origin: str


def decide_capability(facts: CapabilityFacts, overrides: tuple[CapabilityOverride, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the capability, and a warning for each override that is not one word and was therefore ignored."""
    warnings: list[str] = []
    for override in overrides:  # 1, 2
        word = (override.text or "").strip()
        if _WORD.fullmatch(word):
            return word, tuple(warnings)
        if word:
            warnings.append(f"The capability in {override.origin} is not one plain word and is ignored.")
    return _detect_capability(facts), tuple(warnings)


def _detect_capability(facts: CapabilityFacts) -> str:
    if facts.system == "darwin":  # 3
        return "metal" if facts.architecture == "arm64" else "darwin-x86"
    if facts.system == "linux" and facts.architecture == "arm64" and facts.gpu_vendor == "nvidia":  # 4
        newest = next((major for major in _CUDA_MAJORS if major in facts.cuda_toolkits), None)
        return f"nvidia-l4t-cuda-{newest}" if newest else "nvidia-l4t"
    if facts.gpu_vendor is None or _is_small(facts):  # 5, 6
        return "default"
    if facts.gpu_vendor == "nvidia":  # 7
        cuda = _choose_cuda_major(facts)
        return f"nvidia-cuda-{cuda}" if cuda else "nvidia"
    return facts.gpu_vendor  # 8


def _is_small(facts: CapabilityFacts) -> bool:
    """Whether the GPU is too small. Unknown memory is not small, except where the GPU has no memory of its own at
    all."""
    if facts.vram_bytes_total is None:
        return facts.unified_memory
    return facts.vram_bytes_total <= SMALL_VRAM_BYTES


def _choose_cuda_major(facts: CapabilityFacts) -> int | None:
    """Return the newest installed toolkit that the driver can run; without one, the driver's own version.

    A driver runs everything older than itself, and nothing newer.
    """
    limit = facts.cuda_driver if facts.cuda_driver is not None else max(_CUDA_MAJORS)
    runnable = [major for major in _CUDA_MAJORS if major <= limit]
    installed = [major for major in runnable if major in facts.cuda_toolkits]
    if installed:
        return installed[0]
    return runnable[0] if runnable and facts.cuda_driver is not None else None
