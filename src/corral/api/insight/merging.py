"""Pages of metrics of several processes as one page, as if each were scraped by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

# How a line with a number begins: its name, and its labels if it has any.
_WITH_LABELS = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)\{", re.MULTILINE)
_WITHOUT = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*) ", re.MULTILINE)
_BEGINS = b"\n# HELP "


def labelled(page: bytes, process: int) -> bytes:
    """Every number says which process it is of."""
    page = _WITH_LABELS.sub(rb'\1{process="%d",' % process, page)
    return _WITHOUT.sub(rb'\1{process="%d"} ' % process, page)


def merged(pages: Iterable[bytes]) -> bytes:
    """Every family once, as the format wants it, with the numbers of all."""
    families: dict[bytes, list[bytes]] = {}
    for page in pages:
        for block in (b"\n" + page).split(_BEGINS)[1:]:
            sentence, kind, *rest = block.split(b"\n", 2)
            numbers = rest[0] if rest else b""
            name = sentence.split(b" ", 1)[0]
            # The last line of a block is without its end if another block came behind it.
            numbers = numbers if numbers.endswith(b"\n") or not numbers else numbers + b"\n"
            families.setdefault(name, [b"# HELP %b\n%b\n" % (sentence, kind)]).append(numbers)
    return b"".join(part for parts in families.values() for part in parts)
