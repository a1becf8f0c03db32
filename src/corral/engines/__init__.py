"""The galleries and engine launchers that come with Corral.

Launchers are programs: they are written beside an engine and run by its interpreter, so they import nothing of Corral.
What several of them share, such as the HTTP server, is one source here, and is joined into each when it is read.
"""

from __future__ import annotations

import ast
from pathlib import Path

_HERE = Path(__file__).parent
_SHARED_PREFIX = "corral.engines.launchers._"


def read_launcher(name: str) -> str | None:
    """Return the program of a launcher as one file that runs alone, or None if there is none of this name."""
    path = _HERE / "launchers" / f"{name}.py"
    if not name.isidentifier() or name.startswith("_") or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    shared = next((one for one in ast.parse(text).body if _is_shared(one)), None)
    if not isinstance(shared, ast.ImportFrom) or shared.module is None:
        return text
    lines = text.splitlines()
    lines[shared.lineno - 1 : shared.end_lineno] = _read_shared(shared.module.rpartition(".")[2])
    return "\n".join(lines) + "\n"


def _is_shared(statement: ast.stmt) -> bool:
    """Return whether a statement imports a part of launchers that is joined into them. A launcher has at most one."""
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(_SHARED_PREFIX)


def _read_shared(name: str) -> list[str]:
    """Return the lines of a shared part after its docstring and its future import, which may only begin a file."""
    text = (_HERE / "launchers" / f"{name}.py").read_text(encoding="utf-8")
    future = next(one for one in ast.parse(text).body if isinstance(one, ast.ImportFrom) and one.module == "__future__")
    return text.splitlines()[future.end_lineno :]


def list_gallery_files() -> tuple[Path, ...]:
    """Return the files of the built-in gallery."""
    return tuple(sorted((_HERE / "gallery").glob("*.yaml")))


def list_model_gallery_files() -> tuple[Path, ...]:
    """Return the files of the built-in gallery of models."""
    return tuple(sorted((_HERE / "models").glob("*.yaml")))
