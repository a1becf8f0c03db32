"""Reads YAML from outside as plain values.

Guarantee: nothing in the text is run, and no text makes this slow or large: its size, its depth, and the number of
values after every alias and merge has been expanded are limited.
"""

from __future__ import annotations

from typing import Any

import yaml

from corral.policy.gallery import make_gallery_error

TEXT_LIMIT_BYTES = 4 * 1024 * 1024
DEPTH_LIMIT = 32
VALUES_LIMIT = 500_000

# libyaml where it is installed: the same rules, thirty times as fast.
_Loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def load_document(text: str, gallery: str) -> Any:
    """Return the values of a YAML text; an empty one is an empty list. `InvalidRequest` (`bad_gallery`) if it is no
    YAML."""
    if len(text.encode(errors="surrogatepass")) > TEXT_LIMIT_BYTES:
        raise make_gallery_error(gallery, f"the index is larger than {TEXT_LIMIT_BYTES >> 20} MiB")
    try:
        _check_depth(text, gallery)
        root = yaml.compose(text, Loader=_Loader)
        if root is None:
            return []
        _ValueCounter(gallery).count(root)
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f" in line {mark.line + 1}" if mark is not None else ""
        raise make_gallery_error(gallery, f"this cannot be read as YAML{location}") from error
    except ValueError as error:
        # A value that looks like a date or a number and is none.
        raise make_gallery_error(gallery, f"a value cannot be read ({str(error)[:100]})") from error


def _check_depth(text: str, gallery: str) -> None:
    """Raise if the text is nested too deeply, before anything walks it recursively."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_LIMIT:
                raise make_gallery_error(gallery, f"the index is nested deeper than {DEPTH_LIMIT}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _ValueCounter:
    """Counts how many values a YAML node stands for when every alias is written out."""

    def __init__(self, gallery: str) -> None:
        self._gallery = gallery
        self._known_counts: dict[int, int] = {}
        self._above: set[int] = set()

    def count(self, node: yaml.Node) -> int:
        node_id = id(node)
        if node_id in self._known_counts:
            return self._known_counts[node_id]
        if node_id in self._above:
            raise make_gallery_error(self._gallery, "an alias contains itself")
        self._above.add(node_id)
        size = 1 + sum(self.count(child) for child in _list_children(node))
        self._above.discard(node_id)
        if size > VALUES_LIMIT:
            raise make_gallery_error(
                self._gallery, f"the index has more than {VALUES_LIMIT} values when its aliases are written out"
            )
        self._known_counts[node_id] = size
        return size


def _list_children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
