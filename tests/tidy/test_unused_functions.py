"""Functions that only tests reach are no part of the product: its promises are shown through what it calls itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools.source import SourceModule, iter_modules

# A framework calls what these decorators do not mark.
OWN_DECORATORS = frozenset({"property", "classmethod", "staticmethod", "contextmanager", "asynccontextmanager"})
ALLOWED = {
    "eof_received": "asyncio calls it",
    "wait_idle": "the signal that tests await instead of sleeping",
    "delete_now": "a call of the Python client, which people use too",
    "from_document": "replays a recording that somebody has sent in a report",
    "count_remembered": "shows that the memory of ports is bounded",
    "find_owner": "shows who holds a port",
    "find_api_key": "shows the key that an engine was started with",
}


def _list_public_functions(module: SourceModule, own_classes: set[str]) -> Iterator[str]:
    """Yield the functions and methods that no framework calls: no override of a foreign class, no decorated route."""
    for scope in ast.walk(module.tree):
        if isinstance(scope, ast.ClassDef):
            if not {re.split(r"[.\[]", ast.unparse(base))[0] for base in scope.bases} <= own_classes:
                continue
        elif not isinstance(scope, ast.Module):
            continue
        for node in scope.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
                if decorators <= OWN_DECORATORS:
                    yield node.name


def _list_used_names(module: SourceModule) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Commands and `getattr` name functions in strings.
            yield from re.split(r"[.:]", node.value)


def test_every_function_of_the_product_is_named_by_the_product() -> None:
    modules = [module for module in iter_modules("src") if "/migrations/" not in module.path]
    used = {name for module in modules for name in _list_used_names(module)}
    classes = {node.name for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)}
    unused = [
        f"{module.path}::{name}"
        for module in modules
        for name in _list_public_functions(module, classes)
        if name not in used and name not in ALLOWED
    ]
    assert unused == []
