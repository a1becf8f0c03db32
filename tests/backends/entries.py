"""Made-up indexes and entries. Nothing here exists anywhere."""

from __future__ import annotations

from corral.backends.catalog import BackendCatalog
from corral.backends.index import BackendIndex, parse_index
from corral.domain.backend import GalleryEntry
from corral.store.database import Database

# Made once and never opened: what is asked of the catalog's memory needs no database.
_NOWHERE = Database("postgresql://nobody@127.0.0.1:1/nothing")

INDEX = """
- &brain
  name: brain
  alias: brain
  description: Thinks.
  license: MIT
  tags: [chat, gguf]
  urls: [https://brain.example]
  capabilities:
    default: cpu-brain
    nvidia: cuda12-brain
    nvidia-cuda-12: cuda12-brain
    metal: metal-brain
    amd: lost-brain
- !!merge <<: *brain
  name: cpu-brain
  uri: registry.example/brains:latest-cpu
  mirrors: [oci://mirror.example/brains:latest-cpu]
- !!merge <<: *brain
  name: cuda12-brain
  uri: oci://registry.example/brains:latest-cuda-12
- <<: *brain
  name: metal-brain
  uri: https://files.example/metal-brain.tar.gz
  sha256: "{zeros}"
- <<: *brain
  name: cpu-brain-development
  uri: registry.example/brains:master-cpu
- name: ear
  license: Apache-2.0
  tags: [audio]
  manifest:
    command: ["{{python}}", "{{launcher}}"]
    launcher: ear
    serves: [transcriptions]
    ready: {{path: /up}}
  versions:
    - version: "1.9.0"
      source: {{kind: pypi, requirements: ["ear==1.9.0"]}}
    - version: "1.10.0"
      source: {{kind: pypi, requirements: ["ear==1.10.0"]}}
    - version: "2.0.0rc1"
      source: {{kind: pypi, requirements: ["ear==2.0.0rc1"]}}
      manifest: {{serves: [transcriptions, speech]}}
- name: only-gpu
  capabilities: {{nvidia: cuda-only-gpu}}
- name: cuda-only-gpu
  uri: https://files.example/cuda-only-gpu.zip
""".format(zeros="0" * 64)


def parsed(text: str = INDEX, gallery: str = "corral") -> BackendIndex:
    return parse_index(text, gallery)


def catalog(text: str = INDEX, *, prefers_development: bool = False) -> BackendCatalog:
    return BackendCatalog(_NOWHERE, built_in=parsed(text), prefers_development=prefers_development)


def entry(name: str, text: str = INDEX) -> GalleryEntry:
    return next(one for one in parsed(text).entries if one.name == name)
