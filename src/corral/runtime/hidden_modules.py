"""Imports a library without optional dependencies of it that are installed for something else.

Libraries such as nats-py and structlog import what they can use if it is there (`try: import …`), and have no switch
for it. Such an import can be a tenth of the start time and of the memory of a frontend that never uses it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, cast


@contextlib.contextmanager
def hide_modules(*names: str) -> Iterator[None]:
    """Make imports of these modules fail inside the `with` block, as if they were not installed, unless they were
    imported before. Afterwards they can be imported as ever. Only for the import of one library at the start: other
    threads do not see the modules either."""
    modules = cast("dict[str, Any]", sys.modules)
    hidden = [name for name in names if name not in modules]
    # None makes an import fail at once, without a search.
    modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]
