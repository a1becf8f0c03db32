"""The pages for people: links lead somewhere, commands exist, nothing speaks of one machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools.markdown import make_anchor
from tools.source import ROOT, list_files

PAGES = [path.relative_to(ROOT).as_posix() for path in list_files(".md")]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"`((?:[a-z_]+/){2,}|(?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+[a-z_]+\.(?:toml|md|sh))`")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
# Hosts that may stand in an address: loopback, names that RFC 2606 keeps for examples, words in a sentence about an
# address, and the homes of what we build on.
_HOSTS = re.compile(
    r"localhost|127(\.\d+){3}|\[::1\]|0\.0\.0\.0|10(\.\d+){3}|192\.168(\.\d+){2}|192\.0\.2\.\d+|169\.254\.169\.254"
    r"|([\w-]+\.)*(example(\.(com|net|org))?|test|invalid)"
    r"|keepachangelog\.com|semver\.org|diataxis\.fr|json-schema\.org|www\.w3\.org|spec\.openapis\.org"
)
# `one`, `two`, `you` and `someone` are nobody.
_MACHINE_PATH = re.compile(
    r"(?<![\w.~/<-])/(?:root|work|(?:home|Users)/(?!one/|two/|you/|someone/)[A-Za-z][\w-]*)/[\w.-]+"
)
# `corral` or `corral[extra]` as the name of a package, without the file that it is in.
_FROM_AN_INDEX = re.compile(r"corral\[[\w,{}-]+\](?! @ file:)|\binstall\s+(?:-\S+\s+)*['\"]?corral(?![\w.\[/-])")
_NAMES_THE_DANGER = "docs/adr/0040-workers-install-from-the-frontend.md"
_TEXT = (".py", ".md", ".toml", ".txt", ".in", ".json", ".yml", ".yaml", ".cfg", ".ini", ".sh", ".mako", "")


def _prose(path: Path) -> str:
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def _anchors(path: Path) -> set[str]:
    return {make_anchor(heading.replace("`", "")) for heading in _HEADING.findall(_prose(path))}


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    path = ROOT / page
    broken = []
    for link in (first or second for first, second in _LINK.findall(_prose(path))):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        is_there = target.exists() and target.is_relative_to(ROOT)
        if not is_there or (parts.fragment and target.suffix == ".md" and f"#{parts.fragment}" not in _anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("docs/reference/")])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    """`app/core.py` is a file of the product, `tests/tidy/` a folder of the repository, `loop.py` a file somewhere."""
    named = set(_FILE.findall(_prose(ROOT / page)))
    known = {path.name for path in list_files(".py")}
    folders = (ROOT, ROOT / "src/corral", (ROOT / page).parent)
    assert {name for name in named - known if not any((folder / name).exists() for folder in folders)} == set()


def _targets() -> set[str]:
    return set(re.findall(r"^\.PHONY: (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_command_of_a_page_is_a_target(page: str) -> None:
    named = set(
        re.findall(r"(?:`|^(?:\$ )?)make ([a-z][a-z-]*)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert named - _targets() == set()


def test_readme_begins_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make up" in text
    assert "make test" in text
    assert {"up", "test"} <= _targets()


def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    assert set(re.findall(r"^\s*make (\S+)", shown.stdout, re.MULTILINE)) == _targets()


def test_changelog_has_a_place_for_the_next_release() -> None:
    assert re.search(r"^## \[?Unreleased\]?", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_decision_has_its_four_parts() -> None:
    expected = ["## Context", "## Decision", "## Consequences", "## Rejected"]
    decisions = [path for path in list_files(".md", under="docs/adr") if path.name[:4].isdigit()]
    assert decisions
    incomplete = {
        path.name: part for path in decisions for part in expected if part not in path.read_text(encoding="utf-8")
    }
    assert incomplete == {}


def test_every_page_of_the_docs_can_be_reached_from_its_index() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "docs/README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        links = [urlsplit(first or second).path for first, second in _LINK.findall(_prose(page))]
        targets = [(page.parent / unquote(link)).resolve() for link in links if link]
        waiting += [target for target in targets if target.suffix == ".md" and target.exists()]
    lost = [path.relative_to(ROOT).as_posix() for path in list_files(".md", under="docs") if path not in seen]
    assert lost == []


def _texts() -> list[tuple[str, str]]:
    here = Path(__file__).relative_to(ROOT).as_posix()
    found = [(path.relative_to(ROOT).as_posix(), path) for path in list_files(*_TEXT)]
    return [(name, path.read_text(encoding="utf-8", errors="replace")) for name, path in found if name != here]


def test_tree_holds_no_address_of_a_registry_or_a_private_machine() -> None:
    strange = {
        (name, host)
        for name, text in _texts()
        for host in re.findall(r"\b(?:https?|ftp)://(?:[^\s/@\"'`]*@)?(\[[0-9a-f:]+\]|[\w.-]*\w)", text)
        if "." in host and not _HOSTS.fullmatch(host)
    }
    assert strange == set()


def test_no_text_installs_the_package_by_its_name_from_an_index() -> None:
    """A package called corral on an index may be a stranger's: it is installed from the checkout or from its file."""
    texts = [
        *list_files(".py", ".sh", ".toml", under="src"),
        *list_files(".ts", ".tsx", under="ui/src"),
        *list_files(".sh", under="docs"),
    ]
    texts += [path for path in list_files(".md") if path.relative_to(ROOT).as_posix() != _NAMES_THE_DANGER]
    found = {
        path.relative_to(ROOT).as_posix(): match.group()
        for path in texts
        if (match := _FROM_AN_INDEX.search(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("pip install corral", True),
        ("uv tool install --upgrade 'corral'", True),
        ("hint: pip install 'corral[agents]'", True),
        ("Install `corral[embedded]`.", True),
        ("pip install corral==0.1.0", True),
        ("uv tool install 'corral[embedded] @ file:///path/to/corral-0.1.0-py3-none-any.whl'", False),
        ("uv pip install -e '.[frontend]'", False),
        ("pip install corral-0.1.0-py3-none-any.whl", False),
        ("Install Corral again.", False),
    ],
)
def test_check_of_installations_by_name_lets_files_pass(text: str, is_refused: bool) -> None:
    assert (_FROM_AN_INDEX.search(text) is not None) == is_refused


def test_tree_holds_no_path_of_a_private_machine() -> None:
    assert {(name, path) for name, text in _texts() for path in _MACHINE_PATH.findall(text)} == set()
