"""A built page that is none: small files in the shape of the real ones, and a Node that pretends to build them."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from tools.page import PageFolders

INDEX = "<!doctype html><title>Corral</title><p>A page."
SCRIPT = "assets/index-Abc123.js"
SCRIPT_TEXT = "console.log('here')\n" * 40
BROTLI = b"as if it were brotli"


def write_built(folder: Path, *, index: str = INDEX, script: str = SCRIPT, stamp: str = "one") -> None:
    """As Vite and `ui/tools/compress.mjs` leave it."""
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    (folder / script).write_text(SCRIPT_TEXT)
    (folder / f"{script}.br").write_bytes(BROTLI)
    (folder / f"{script}.gz").write_bytes(gzip.compress(SCRIPT_TEXT.encode()))
    (folder / "assets" / "ground.woff2").write_bytes(b"a font")
    (folder / "fence.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "stamp.json").write_text(json.dumps({"sources": stamp}))
    (folder / "index.html").write_text(index)


def write_state(folder: Path, state: str, sentence: str, hint: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"state": state, "sentence": sentence, "hint": hint}))


# Notes each call; `run build` makes a page of the sources, unless they say that they are broken.
_NPM = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$1 $2" in
  "install "*)
    mkdir -p node_modules
    cp package-lock.json node_modules/.package-lock.json
    ;;
  "run build")
    if grep -q broken src/main.tsx; then echo "main.tsx: this is broken" >&2; exit 1; fi
    if [ -n "$HOLD" ]; then read line < "$HOLD"; fi
    mkdir -p "$PAGE_OUT/assets"
    cp src/main.tsx "$PAGE_OUT/index.html"
    ;;
esac
"""


@dataclass
class Tree:
    """A repository with a `ui/`, and the programs that build it."""

    root: Path
    programs: Path
    calls: Path
    places: PageFolders = field(init=False)

    def __post_init__(self) -> None:
        self.places = PageFolders(self.root)

    @property
    def main(self) -> Path:
        return self.places.ui / "src" / "main.tsx"

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def node(self, version: str) -> None:
        self._program("node", f"#!/bin/sh\necho {version}\n")

    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.programs}:{os.defpath}", "CALLS": str(self.calls)}

    def state(self) -> dict[str, str]:
        return dict(json.loads((self.places.built / "state.json").read_text()))

    def _program(self, name: str, text: str) -> None:
        self.programs.mkdir(exist_ok=True)
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)


def make_tree(folder: Path) -> Tree:
    tree = Tree(folder / "tree", folder / "programs", folder / "calls")
    (tree.root / "ui" / "src").mkdir(parents=True)
    tree.main.write_text("the first page")
    (tree.places.ui / "package-lock.json").write_text(json.dumps({"packages": {"": {}, "node_modules/vite": {}}}))
    (tree.places.ui / "vite.config.ts").write_text("export default {}")
    tree.node("v20.19.0")
    tree._program("npm", _NPM)
    return tree
