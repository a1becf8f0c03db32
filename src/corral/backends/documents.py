"""YAML from outside as plain values.

Guarantee: nothing in the text is run, and no text makes this slow or large: its size, its depth, and the number of
values after every alias and merge has been written out are limited.
"""

from __future__ import annotations

from typing import Any

import yaml

from corral.policy.gallery import wrong

TEXT_LIMIT_BYTES = 4 * 1024 * 1024
DEPTH_LIMIT = 32
VALUES_LIMIT = 500_000

# libyaml where there is one: the same rules, thirty times as fast.
_Loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def load_document(text: str, gallery: str) -> Any:
    """The values; an empty text is an empty list. `InvalidRequest` with the code `bad_gallery` if it is no YAML."""
    if len(text.encode(errors="surrogatepass")) > TEXT_LIMIT_BYTES:
        raise wrong(gallery, f"the index is larger than {TEXT_LIMIT_BYTES >> 20} MiB")
    try:
        _check_depth(text, gallery)
        root = yaml.compose(text, Loader=_Loader)
        if root is None:
            return []
        _Size(gallery).of(root)
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise wrong(gallery, f"this cannot be read as YAML{place}") from error
    except ValueError as error:
        # A date or a number that looks like one and is none.
        raise wrong(gallery, f"a value cannot be read ({str(error)[:100]})") from error


def _check_depth(text: str, gallery: str) -> None:
    """Before anything walks the text recursively."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_LIMIT:
                raise wrong(gallery, f"the index is nested deeper than {DEPTH_LIMIT}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Size:
    """How many values a node stands for when every alias is written out. Each node is looked at once."""

    def __init__(self, gallery: str) -> None:
        self._gallery = gallery
        self._known: dict[int, int] = {}
        self._above: set[int] = set()

    def of(self, node: yaml.Node) -> int:
        place = id(node)
        if place in self._known:
            return self._known[place]
        if place in self._above:
            raise wrong(self._gallery, "an alias contains itself")
        self._above.add(place)
        size = 1 + sum(self.of(child) for child in _children(node))
        self._above.discard(place)
        if size > VALUES_LIMIT:
            raise wrong(
                self._gallery, f"the index has more than {VALUES_LIMIT} values when its aliases are written out"
            )
        self._known[place] = size
        return size


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
