"""Gives a frontend of a test other backends than those that come with Corral."""

from __future__ import annotations

from corral.backends.catalog import BackendCatalog
from corral.backends.index import BackendIndex


def replace_built_in(catalog: BackendCatalog, built_in: BackendIndex) -> None:
    """Make this index the built-in gallery of a catalog that exists already."""
    catalog._indexes.built_in = built_in
    catalog._rebuild_entries()
