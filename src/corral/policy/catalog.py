"""Which build a machine gets: from one word for its hardware to the name of a concrete backend.

meta       capabilities[word], else `default`, else `cpu`, else none
concrete   runs where the words in its name and address allow it
alias      a name that several concretes share: the best of those that run there

Three vocabularies meet here and are kept apart: capabilities (`nvidia-cuda-12`) say what a machine is, build words
(`cuda`, `rocm`) stand in names of builds, and neither is the name of an engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from corral.domain.backend import DEVELOPMENT_SUFFIX, PROCESSOR, GalleryEntry, Manifest, SourceKind, Version
from corral.domain.node import Hardware
from corral.policy.versions import is_before_release

DEFAULT = "default"
CPU = "cpu"
# Every word that a worker of ours can find by itself, and `cpu` and `vulkan`, which people write.
CAPABILITIES = (
    DEFAULT,
    CPU,
    "nvidia",
    "nvidia-cuda-12",
    "nvidia-cuda-13",
    "nvidia-l4t",
    "nvidia-l4t-cuda-12",
    "nvidia-l4t-cuda-13",
    "amd",
    "intel",
    "vulkan",
    "metal",
    "darwin-x86",
)
# A GPU with no more memory than this serves worse than the processor.
SMALL_VRAM_BYTES = 4 << 30

# The first word of a capability to the build words that it likes, best first.
_LIKED = {
    "nvidia": ("cuda", "vulkan", CPU),
    "amd": ("rocm", "hip", "vulkan", CPU),
    "intel": ("sycl", "intel", CPU),
    "metal": ("metal", CPU),
    "darwin-x86": ("darwin-x86", CPU),
    "vulkan": ("vulkan", CPU),
}
# Build words to the capabilities that they need; the first row that matches decides.
_NEEDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("darwin", "mlx", "metal"), ("metal", "darwin-x86")),
    (("l4t",), ("nvidia-l4t",)),
    (("cuda", "nvidia"), ("nvidia",)),
    (("rocm", "hip", "amd"), ("amd",)),
    (("sycl", "intel"), ("intel",)),
)
# Letters and digits apart: cuda12 and cuda-12 are the same word.
_WORDS = re.compile(r"[a-z]+|\d+")
# `l4t` is the one build word with a digit in it; `amd64` is a processor and `x86` no build word.
_JOINED = re.compile(r"l4t|amd64|x86")
_SEPARATORS = re.compile(r"[/\\]")


def capability_of(hardware: Hardware) -> str:
    """The worker's own word; of an older worker, the GPU's vendor when it has memory worth using."""
    if hardware.capability:
        return hardware.capability
    if hardware.gpu_vendor and (hardware.total_vram or 0) > SMALL_VRAM_BYTES:
        return hardware.gpu_vendor
    return DEFAULT


def choose(capabilities: Mapping[str, str], capability: str) -> str | None:
    """The concrete that a meta names for a machine, or None: it cannot be installed there."""
    for word in (capability, DEFAULT, CPU):
        if capabilities.get(word):
            return capabilities[word]
    return None


def runs_on(name: str, uri: str, capability: str) -> bool:
    """Whether a concrete can run on a machine, by the words in its name and its address."""
    words = _words_of(name) | _words_of(uri)
    for builds, needed in _NEEDS:
        if words & set(builds):
            return any(capability == word or capability.startswith(f"{word}-") for word in needed)
    return True


def uses_processor_only(name: str, manifest: Manifest | None, capability: str) -> bool:
    """Whether a build keeps models in RAM on a machine that has a GPU.

    The manifest says so, or the name has the build word `cpu`. On a Mac such builds use the GPU nevertheless.
    """
    if capability == "metal":
        return False
    return (manifest is not None and manifest.runs_on == PROCESSOR) or CPU in _words_of(name)


def best_of(names: Iterable[str], capability: str) -> str | None:
    """Of several concretes that run on a machine, the one that suits it best."""
    ordered = sorted(names)
    for word in _liked(capability):
        for name in ordered:
            if _words_of(word) <= _words_of(name):
                return name
    return ordered[0] if ordered else None


def alias_entry(alias: str, concretes: Sequence[GalleryEntry]) -> GalleryEntry:
    """An alias without an entry of its own, as a meta over the concretes that share it."""
    chosen: dict[str, str] = {}
    for capability in CAPABILITIES:
        fitting = [one.name for one in concretes if runs_on(one.name, uri_of(one), capability)]
        best = best_of(fitting, capability)
        if best is not None:
            chosen[capability] = best
    first = concretes[0]
    return GalleryEntry(
        name=alias,
        gallery=first.gallery,
        alias=alias,
        description=first.description,
        license=first.license,
        icon=first.icon,
        urls=first.urls,
        tags=first.tags,
        capabilities=chosen,
    )


def newest(entry: GalleryEntry) -> Version | None:
    """What is installed when no version is named: the newest that is a release, else the newest. None for a meta."""
    releases = (version for version in entry.versions if not is_before_release(version.version))
    return next(releases, entry.versions[0] if entry.versions else None)


def uri_of(entry: GalleryEntry) -> str:
    version = newest(entry)
    # A folder's path says where it lies on somebody's disk, and nothing about the build.
    if version is None or version.source.kind is SourceKind.DIRECTORY:
        return ""
    return version.source.uri


def safe_name(name: str) -> str:
    """A name is a folder and part of a subject as well."""
    return _SEPARATORS.sub("__", name.strip())


def stable_name(name: str) -> str:
    return name.removesuffix(DEVELOPMENT_SUFFIX)


def _liked(capability: str) -> tuple[str, ...]:
    for word, liked in _LIKED.items():
        if capability == word or capability.startswith(f"{word}-"):
            return liked
    return (CPU,)


def _words_of(text: str) -> set[str]:
    lowered = text.lower()
    found = set(_JOINED.findall(lowered))
    return found | set(_WORDS.findall(_JOINED.sub(" ", lowered)))
