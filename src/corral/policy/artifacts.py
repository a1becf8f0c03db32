"""Names of files that tools make: which are inside of the files of a run, and how one is made of anything."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

NAME_MAX = 255
_PART_MAX = 80
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")


def is_inside(path: str) -> bool:
    """Return whether a relative path stays inside of the folder that it begins at, whichever folder that is."""
    parts = PurePosixPath(path).parts
    return not (path.startswith("/") or ".." in parts or "\\" in path or not path.isprintable())


def is_file_name(path: str) -> bool:
    """Return whether a path can be the name of a file that a tool has made."""
    return 0 < len(path) <= NAME_MAX and is_inside(path) and str(PurePosixPath(path)) == path and path != "."


def make_name_part(text: str, fallback: str) -> str:
    """Return a part of a file's name, made of any text, such as one that a server has sent."""
    return _UNUSUAL.sub("-", text).strip("-.")[-_PART_MAX:].strip("-.") or fallback
