"""Imports a library without an optional dependency of it that is installed for something else.

Libraries such as nats-py and structlog import what they can use if it is there (`try: import …`), and have no switch
for it. Such an import can be a tenth of the start time and of the memory of a frontend that never uses it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, cast


@contextlib.contextmanager
def hide_module(name: str) -> Iterator[None]:
    """Make `import name` fail inside the `with` block, as if the module were not installed, unless it was imported
    before. Afterwards the module can be imported as ever. Only for the import of one library at the start: other
    threads do not see the module either."""
    modules = cast("dict[str, Any]", sys.modules)
    if name in modules:
        yield
        return
    # None makes the import fail at once, without a search.
    modules[name] = None
    try:
        yield
    finally:
        del modules[name]
