"""Reads the project's own source: lists its files, and parses their syntax trees.

Paths are relative to the root of the repository, so that results are the same on every machine.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Folders without source of ours.
SKIPPED = frozenset({"__pycache__", "node_modules", "dist"})


class DocsProblem(Exception):
    """Raised when a generated page cannot be written truthfully; each argument is one sentence."""

    def __init__(self, *sentences: str) -> None:
        self.sentences = sentences
        super().__init__("\n".join(sentences))


@dataclass(frozen=True, slots=True)
class SourceModule:
    """Holds one source file with its syntax tree."""

    path: str
    tree: ast.Module


def list_files(*suffixes: str, under: str = ".", root: Path = ROOT) -> list[Path]:
    """Return files below a folder by suffix, in a fixed order. Folders whose names begin with a dot hold no source.

    `.git` is skipped also where it is a file, as in a linked worktree.
    """
    found = []
    for folder, below, names in os.walk(root / under):
        below[:] = [name for name in below if name == ".ci" or not (name in SKIPPED or name.startswith("."))]
        chosen = [name for name in names if not suffixes or Path(name).suffix in suffixes]
        found += [Path(folder, name) for name in chosen if name != ".git"]
    return sorted(found)


def iter_modules(under: str, root: Path = ROOT) -> Iterator[SourceModule]:
    for path in list_files(".py", under=under, root=root):
        yield SourceModule(path.relative_to(root).as_posix(), _parse(path.read_text(encoding="utf-8")))


# Many checks read the same files one after the other. No check changes a tree.
@lru_cache(maxsize=2000)
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


def get_literal_text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def find_keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((item.value for item in call.keywords if item.arg == name), None)


def get_called_name(call: ast.Call) -> str:
    """Return `outbox.append` of `outbox.append(…)`; empty for a callee without a plain name."""
    return ast.unparse(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ""
