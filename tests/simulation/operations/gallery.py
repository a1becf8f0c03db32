"""What can be installed in the simulated cluster: a meta with two builds, and one that is for everybody."""

from __future__ import annotations

from corral.backends.index import BackendIndex
from corral.domain.backend import BUILT_IN_GALLERY, BackendSource, BackendVersion, GalleryEntry, Manifest, SourceKind
from tests.worker.pretend_work import MIB

VERSIONS = ("3", "2", "1")
META = "engine"
CONCRETE = "cuda-engine"
SOLO = "tool"
_SIZES = {"cuda-engine": 6 * MIB, "cpu-engine": 4 * MIB, "tool": 2 * MIB}


def _concrete(name: str) -> GalleryEntry:
    versions = tuple(
        BackendVersion(
            version=version,
            source=BackendSource(
                kind=SourceKind.URL, uri=f"https://files.example/{name}-{version}", size_bytes=_SIZES[name]
            ),
            manifest=Manifest(),
        )
        for version in VERSIONS
    )
    return GalleryEntry(name=name, gallery=BUILT_IN_GALLERY, versions=versions)


INDEX = BackendIndex(
    entries=(
        GalleryEntry(
            name=META, gallery=BUILT_IN_GALLERY, capabilities={"nvidia": "cuda-engine", "default": "cpu-engine"}
        ),
        _concrete("cuda-engine"),
        _concrete("cpu-engine"),
        _concrete(SOLO),
    )
)
