"""Holds the vocabulary: one class name for one concept, role nouns for types, no retired word, honest `is_` functions.

Names, texts, docstrings and comments of Python are found by the parser, texts of the page by words. Text in backquotes
is quoted and may say anything. Nothing here judges whether a sentence is plain.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.source import ROOT, SourceModule, iter_modules, list_files

PACKAGES = ("src", "tests", "tools", "bench")
RETIRED = re.compile(
    r"\b(wish(es)?|told|asked|wanted|heard|moulds?|owed|debts?|hearers?|switchboard|surroundings|setbacks?|ancestors?"
    # Words that hide who acts: write "another user", "no worker", "the caller" or "again".
    r"|somebody|nobody|anybody|whoever|anew|said)\b"
)
QUOTED = re.compile(r"`[^`]*`")
# Sent or stored: their spelling stays. Each with the place that fixes it.
SENT_OR_STORED: Mapping[str, str] = {
    "stop_wanted": "column and field of targets",
    "heard_at": "column and field of targets",
    "asked_at": "column of model_demand",
    "rule.setback": "type of an event",
    "frame-ancestors": "directive of Content-Security-Policy",
    "as_nobody": "the account of Unix systems that owns nothing",
}
# A single word that is sent or stored, in the one file that has it.
SENT_OR_STORED_IN: Mapping[tuple[str, str], str] = {
    ("src/corral/worker/processes/journal.py", "wish"): "field of the file that describes a running engine",
    ("src/corral/engines/launchers/fake.py", "told_to_fail"): "code of an error",
    ("src/corral/operations/command_sender.py", "nobody_listens"): "label of a metric",
    ("src/corral/embedded/postgres.py", "nobody"): "the account of Unix systems that owns nothing",
    ("src/corral/worker/runs/program_limits.py", "nobody"): "the account of Unix systems that owns nothing",
    (
        "src/corral/app/settings/models.py",
        "corral-run or nobody if the worker is root, else its own",
    ): "names that account",
    ("src/corral/cli/backends.py", "owed"): "hidden alias of a command and key of `--json`",
    ("src/corral/cli/backends.py", "owed-drop"): "hidden alias of a command",
    ("src/corral/cli/backends.py", "owed-revive"): "hidden alias of a command",
}
# The schema that earlier versions wrote.
MIGRATIONS = "src/corral/store/migrations/"
# Class names that two classes of `src` share, each with its reason.
SHARED_CLASS_NAMES: Mapping[str, str] = {}
# Class names that look like a participle or a gerund and are nouns.
NOUNS = frozenset({"Feed", "Speed", "Need", "Timing", "Listing", "Recording"})
RIDDLES = frozenset({"Seat", "Bench", "Place", "Line", "Head", "Hold", "Voice", "Story", "Again", "Missing"})
PARTICIPLES = frozenset(
    {"Begun", "Found", "Gone", "Held", "Kept", "Known", "Left", "Said", "Seen", "Taken", "Told", "Written"}
)
# Systems whose tests and pages keep to the same words. The older ones follow one by one.
PLAIN_TESTS = tuple(
    f"tests/{name}/"
    for name in ("agents", "batches", "knowledge", "mcp_server", "quantization", "runner", "runs", "skills", "tasks")
)
PLAIN_PAGES = (
    *(f"docs/behaviours/{name}.toml" for name in ("agents", "batches", "knowledge", "mcp", "quantization", "runner")),
    *(f"docs/behaviours/{name}.toml" for name in ("runs", "skills", "tasks")),
    *(f"docs/how-to/{name}.md" for name in ("agents", "batches", "collections", "mcp-servers", "quantize", "skills")),
    *(f"docs/explanation/{name}.md" for name in ("agents", "runs")),
    *(f"docs/adr/{number:04}-" for number in range(60, 100)),
)
# These files name what they forbid.
EXEMPT = frozenset({"tests/tidy/test_vocabulary.py", "tools/commits.py"})


def test_class_name_stands_for_one_class() -> None:
    places = defaultdict(list)
    for module in iter_modules("src"):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{module.path}:{node.lineno}")
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in shared.items() if name not in SHARED_CLASS_NAMES} == {}
    assert set(SHARED_CLASS_NAMES) <= set(shared), "the list names a class name that is not shared any more"


def test_public_class_says_its_role_in_a_docstring() -> None:
    silent = [
        f"{module.path}:{node.lineno} {node.name}"
        for module in iter_modules("src")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_class_is_not_named_by_a_bare_participle_gerund_or_riddle() -> None:
    riddles = [
        f"{module.path}:{node.lineno} {node.name}"
        for package in PACKAGES
        for module in iter_modules(package)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and _is_riddle(node.name.lstrip("_"))
    ]
    assert riddles == []


def test_identifier_has_no_retired_word() -> None:
    found = [
        f"{module.path}:{line} {name}"
        for package in PACKAGES
        for module in iter_modules(package)
        if module.path not in EXEMPT
        for line, name in _iter_identifiers(module)
        if (module.path, name) not in SENT_OR_STORED_IN and _has_retired_word(name)
    ]
    assert found == []


def test_message_has_no_retired_word() -> None:
    found = [
        f"{module.path}:{line} {text!r}"
        for package in ("src", "tools")
        for module in iter_modules(package)
        if not module.path.startswith(MIGRATIONS) and module.path not in EXEMPT
        for line, text in _iter_messages(module)
        if (module.path, text) not in SENT_OR_STORED_IN and _has_retired_word(text)
    ]
    assert found == []


def test_docstring_and_comment_have_no_retired_word() -> None:
    found = [
        f"{module.path}:{line} {text}"
        for package in ("src", "tools")
        for module in iter_modules(package)
        if not module.path.startswith(MIGRATIONS)
        for line, text in _iter_prose(module)
        if _has_retired_word(QUOTED.sub("", text))
    ]
    assert found == []


def test_prose_of_tests_and_docs_of_newer_systems_has_no_retired_word() -> None:
    found = [
        f"{module.path}:{line} {text}"
        for module in iter_modules("tests")
        if module.path.startswith(PLAIN_TESTS)
        for line, text in _iter_prose(module)
        if _has_retired_word(QUOTED.sub("", text))
    ]
    pages = [path for path in list_files(".md", ".toml", under="docs") if _name(path).startswith(PLAIN_PAGES)]
    assert len(pages) > len(PLAIN_TESTS)
    for path in pages:
        plain = QUOTED.sub("", path.read_text(encoding="utf-8"))
        found += [f"{_name(path)} {line.strip()}" for line in plain.splitlines() if _has_retired_word(line)]
    assert found == []


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_page_has_no_retired_word() -> None:
    found = []
    for path in list_files(".ts", ".tsx", under="ui/src"):
        if path.name == "schema.d.ts":  # generated from the types of the wire, which the other tests read
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if _has_retired_word(line):
                found.append(f"{path.relative_to(ROOT)}:{number} {line.strip()}")
    assert found == []


def test_question_function_returns_a_bool_and_changes_nothing() -> None:
    liars = [
        f"{module.path}:{node.lineno} {node.name}"
        for module in iter_modules("src")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and re.match(r"_?(is|has|can)_", node.name)
        and not (_returns_bool(node) and not _assigns_attribute(node))
    ]
    assert liars == []


def _has_retired_word(text: str) -> bool:
    for name in SENT_OR_STORED:
        text = text.replace(name, "")
    return RETIRED.search(_split_words(text)) is not None


def _is_riddle(name: str) -> bool:
    if name in NOUNS:
        return False
    is_one_word = len(re.findall(r"[A-Z][a-z0-9]*", name)) == 1
    return is_one_word and (name in RIDDLES or name in PARTICIPLES or name.endswith(("ed", "ing")))


def _returns_bool(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    returned = ast.unparse(function.returns) if function.returns else ""
    return (
        returned == "bool" or returned.startswith(("TypeIs[", "TypeGuard[")) or returned.endswith("ColumnElement[bool]")
    )


def _assigns_attribute(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) for node in ast.walk(function))


def _split_words(text: str) -> str:
    """Return the words of names and sentences, in lower case and apart: `heardAt` and `heard_at` become `heard at`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ").lower()


def _iter_identifiers(module: SourceModule) -> Iterator[tuple[int, str]]:
    """Yield every name that the module defines: classes, functions, parameters, attributes, locals."""
    for node in ast.walk(module.tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def _iter_prose(module: SourceModule) -> Iterator[tuple[int, str]]:
    """Yield every docstring and every comment of the module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO((ROOT / module.path).read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _iter_messages(module: SourceModule) -> Iterator[tuple[int, str]]:
    """Yield every text of the module that is not a docstring: messages, help texts, names of options."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
