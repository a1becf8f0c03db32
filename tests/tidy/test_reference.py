"""The reference pages say what the code does, and the tools that write them notice when they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.app.settings import describe_all_settings
from corral.bus.subjects import SUBJECTS
from tools import behaviours
from tools.pages import cli, events
from tools.reference import PAGES, check
from tools.source import ROOT, DocsProblem


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    """Every setting, route, command, subject, kind of event, metric, error and behaviour is on its page."""
    assert check({name: PAGES[name]}) == []


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_is_the_same_whenever_and_wherever_it_is_written(name: str) -> None:
    page = PAGES[name]()
    assert page == PAGES[name]()
    assert str(Path.home()) not in page
    assert str(ROOT) not in page


def test_every_setting_has_its_line() -> None:
    page = PAGES["settings.md"]()
    assert [
        doc.key for doc in describe_all_settings() if f"`{doc.environment}`" not in page or f"`{doc.flag}`" not in page
    ] == []


def test_every_subject_has_its_line() -> None:
    page = PAGES["subjects.md"]()
    assert [spec.name for spec in SUBJECTS if f"`{spec.template.replace('{node}', '<node>')}`" not in page] == []


def test_commands_of_the_first_minutes_are_on_the_page() -> None:
    page = cli.render()
    expected = ("corral up", "corral status", "corral down", "corral serve", "corral worker", "corral nodes list")
    assert [command for command in expected if f"## {command}\n" not in page] == []


def test_kind_of_event_put_together_from_a_parameter_is_found(tmp_path: Path) -> None:
    _write(
        tmp_path / "src/corral/flow.py",
        """
        async def rename(tx): await _changed(tx, "node.name")
        async def _changed(tx, what): await outbox.append(tx, f"{what}_changed", "key")
        """,
    )
    assert events.list_kinds(tmp_path) == {"node.name_changed": ["src/corral/flow.py"]}


def test_kind_of_event_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "src/corral/flow.py", "async def f(tx): await outbox.append(tx, KINDS[0], 'key')")
    with pytest.raises(DocsProblem, match="cannot be read"):
        events.list_kinds(tmp_path)


def _behaviours(root: Path, promises: str, tests: str) -> list[behaviours.Behaviour]:
    _write(root / "docs/behaviours/area.toml", promises)
    _write(root / "tests/test_it.py", tests)
    return behaviours.collect(root)


def test_marks_are_found_wherever_pytest_accepts_them(tmp_path: Path) -> None:
    found = _behaviours(
        tmp_path,
        'A-1 = "."\nA-2 = "."\nA-3 = "."\nA-4 = "."\nA-5 = "."\nA-10 = "."',
        """
        import pytest
        pytestmark = [pytest.mark.behaviour("A-1")]
        @pytest.mark.behaviour("A-2")
        async def test_two(): ...
        @pytest.mark.behaviour("A-3")
        class TestThree:
            @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.behaviour("A-4"))])
            def test_four(self, x): ...
        TestMachine = Machine.TestCase
        TestMachine.pytestmark = [pytest.mark.behaviour("A-5", "A-10")]
        """,
    )
    assert [(one.id, one.tests) for one in found] == [
        ("A-1", ["tests/test_it.py"]),
        ("A-2", ["tests/test_it.py::test_two"]),
        ("A-3", ["tests/test_it.py::TestThree"]),
        ("A-4", ["tests/test_it.py::TestThree::test_four"]),
        ("A-5", ["tests/test_it.py::TestMachine"]),
        ("A-10", ["tests/test_it.py::TestMachine"]),
    ]


def test_behaviour_without_a_test_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocsProblem, match=r"A-1 \(area\) has no test"):
        _behaviours(tmp_path, 'A-1 = "Holds."', "def test_it(): ...")


def test_test_of_an_unknown_behaviour_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocsProblem, match=r"tests/test_it\.py::test_it names the behaviour B-9"):
        _behaviours(tmp_path, "", 'import pytest\n@pytest.mark.behaviour("B-9")\ndef test_it(): ...')


def test_behaviour_that_is_written_down_twice_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "docs/behaviours/other.toml", 'A-1 = "Holds."')
    with pytest.raises(DocsProblem, match="A-1 is in area and again in other"):
        _behaviours(tmp_path, 'A-1 = "Holds."', 'import pytest\n@pytest.mark.behaviour("A-1")\ndef test_it(): ...')


def test_behaviour_with_a_retired_id_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "docs/behaviours/retired.toml", 'retired = ["A-1", "A-2"]')
    with pytest.raises(DocsProblem, match=r"A-1 is retired \(docs/behaviours/retired\.toml\)"):
        _behaviours(tmp_path, 'A-1 = "Holds."', 'import pytest\n@pytest.mark.behaviour("A-1")\ndef test_it(): ...')


def test_test_that_names_a_retired_behaviour_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "docs/behaviours/retired.toml", 'retired = ["A-1"]')
    with pytest.raises(DocsProblem, match=r"tests/test_it\.py::test_it names the behaviour A-1"):
        _behaviours(tmp_path, "", 'import pytest\n@pytest.mark.behaviour("A-1")\ndef test_it(): ...')


def test_behaviour_that_is_retired_twice_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "docs/behaviours/retired.toml", 'retired = ["A-1", "A-1"]')
    with pytest.raises(DocsProblem, match=r"A-1 is retired twice"):
        _behaviours(tmp_path, "", "def test_it(): ...")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = text.strip("\n").splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    path.write_text("\n".join(line[indent:] for line in lines) + "\n", encoding="utf-8")
