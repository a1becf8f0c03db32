"""Chooses the build for a machine: from one word for its hardware to the name of a concrete backend.

meta       capabilities[word], else `default`, else `cpu`, else none
concrete   runs where the words in its name and address allow it
alias      a name that several concretes share: the best of those that run there

Three vocabularies meet here and are kept apart: capabilities (`nvidia-cuda-12`) say what a machine is, build words
(`cuda`, `rocm`) stand in names of builds, and neither is the name of an engine.

Versions are compared for whatever people write into a gallery. The order agrees with Python's own rules where those
apply (`1.0.dev1 < 1.0rc1 < 1.0 < 1.0.post1`), and still has an order for the rest: `b4567`, `v1.2`, `2026.10.11549`,
`latest`. A text without a number is older than any with one; an empty text is the oldest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from corral.domain.backend import PROCESSOR, BackendVersion, GalleryEntry, Manifest, SourceKind
from corral.domain.node import Hardware

DEFAULT = "default"
CPU = "cpu"
# Every word that our worker can detect, and `cpu` and `vulkan`, which people write.
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
# A GPU with no more memory than this serves worse than the CPU.
SMALL_VRAM_BYTES = 4 << 30

# The first word of a capability to its preferred build words, best first.
_PREFERRED = {
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

# Words for pre-releases, oldest first, with their other spellings.
_PRERELEASE_WORDS = (("dev", "nightly", "snapshot"), ("a", "alpha"), ("b", "beta"), ("c", "rc", "pre", "preview"))
_RANK = {word: rank - len(_PRERELEASE_WORDS) for rank, words in enumerate(_PRERELEASE_WORDS) for word in words}
_POST_RELEASE_WORDS = frozenset({"post", "rev", "r", "p", "patch"})
# `v1.2` and llama.cpp's `b4567`: a letter in front of the first number says nothing.
_NUMBERS = re.compile(r"[a-z]?[-_.]?(?P<release>\d+(?:\.\d+)*)", re.ASCII)
_PART = re.compile(r"(?P<word>[a-z]+)[-_.]?(?P<number>\d*)|(?P<alone>\d+)", re.ASCII)

_Part = tuple[int, str, int]
VersionKey = tuple[int, tuple[int, ...], tuple[_Part, ...]]
_END: _Part = (0, "", 0)


def make_version_key(text: str) -> VersionKey:
    """Return a sort key; greater is newer. Spellings of the same version (`1.0`, `v1.0.0`) have the same key."""
    lowered = text.strip().lower()
    numbers = _NUMBERS.match(lowered)
    if numbers is None:
        return (0 if lowered else -1, (), ((0, lowered, 0),))
    release = [int(part) for part in numbers["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    return (1, tuple(release), (*_parse_parts(lowered[numbers.end() :]), _END))


def is_newer(text: str, than: str) -> bool:
    return make_version_key(text) > make_version_key(than)


def is_prerelease(text: str) -> bool:
    """Return whether the version is a pre-release (an alpha, a release candidate, a nightly), which is only installed
    on request."""
    return any(rank < 0 for rank, _, _ in make_version_key(text)[2])


def _parse_parts(text: str) -> tuple[_Part, ...]:
    return tuple(_parse_part(match) for match in _PART.finditer(text))


def _parse_part(match: re.Match[str]) -> _Part:
    word, number = match["word"] or "", int(match["number"] or match["alone"] or 0)
    if word in _RANK:
        return (_RANK[word], "", number)
    # An unknown word, such as a build's platform, comes after the plain release.
    return (1, "" if word in _POST_RELEASE_WORDS else word, number)


def find_capability(hardware: Hardware) -> str:
    """Return the worker's own word; for an older worker, the GPU's vendor if its memory is worth using."""
    if hardware.capability:
        return hardware.capability
    if hardware.gpu_vendor and (hardware.total_vram or 0) > SMALL_VRAM_BYTES:
        return hardware.gpu_vendor
    return DEFAULT


def choose_concrete(capabilities: Mapping[str, str], capability: str) -> str | None:
    """Return the concrete that a meta names for a machine, or None: it cannot be installed there."""
    for word in (capability, DEFAULT, CPU):
        if capabilities.get(word):
            return capabilities[word]
    return None


def can_run_on(name: str, uri: str, capability: str) -> bool:
    """Return whether a concrete can run on a machine, by the words in its name and its address."""
    words = _split_words(name) | _split_words(uri)
    for builds, needed in _NEEDS:
        if words & set(builds):
            return any(capability == word or capability.startswith(f"{word}-") for word in needed)
    return True


def uses_processor_only(name: str, manifest: Manifest | None, capability: str) -> bool:
    """Return whether a build keeps models in RAM on a machine that has a GPU.

    The manifest says so, or the name has the build word `cpu`. On a Mac such builds use the GPU nevertheless.
    """
    if capability == "metal":
        return False
    return (manifest is not None and manifest.runs_on == PROCESSOR) or CPU in _split_words(name)


def pick_best(names: Iterable[str], capability: str) -> str | None:
    """Return the concrete that suits a machine best, of several that run on it."""
    ordered = sorted(names)
    for word in _list_preferred_words(capability):
        for name in ordered:
            if _split_words(word) <= _split_words(name):
                return name
    return ordered[0] if ordered else None


def make_alias_entry(alias: str, concretes: Sequence[GalleryEntry]) -> GalleryEntry:
    """Return an alias without an entry of its own as a meta over the concretes that share it."""
    chosen: dict[str, str] = {}
    for capability in CAPABILITIES:
        fitting = [one.name for one in concretes if can_run_on(one.name, find_uri(one), capability)]
        best = pick_best(fitting, capability)
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


def find_newest(entry: GalleryEntry) -> BackendVersion | None:
    """Return the version that is installed when none is named: the newest release, else the newest. None for a meta."""
    releases = (version for version in entry.versions if not is_prerelease(version.version))
    return next(releases, entry.versions[0] if entry.versions else None)


def find_uri(entry: GalleryEntry) -> str:
    version = find_newest(entry)
    # A folder's path says where it lies on a disk, and nothing about the build.
    if version is None or version.source.kind is SourceKind.DIRECTORY:
        return ""
    return version.source.uri


def check_safe_name(name: str) -> str:
    """Return the name, or raise if it cannot be a folder and a part of a subject."""
    return _SEPARATORS.sub("__", name.strip())


def _list_preferred_words(capability: str) -> tuple[str, ...]:
    for word, preferred in _PREFERRED.items():
        if capability == word or capability.startswith(f"{word}-"):
            return preferred
    return (CPU,)


def _split_words(text: str) -> set[str]:
    lowered = text.lower()
    found = set(_JOINED.findall(lowered))
    return found | set(_WORDS.findall(_JOINED.sub(" ", lowered)))
