"""A group that knows its commands by name and loads the one that is asked for.

`corral --help` and `corral nodes list` must not wait for what only `corral serve` needs. The table therefore holds
each command's sentence too; a test compares it with the command's own.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command

from corral.cli.command import a_group, pause_collection


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    section: str
    module: str
    attribute: str
    sentence: str


def load_command(name: str, entry: Entry) -> Any:
    """The command behind an entry: a group of verbs, or a plain function."""
    # Begun in `__main__`; from here on the process collects its garbage.
    with pause_collection():
        found = getattr(import_module(entry.module), entry.attribute)
    if isinstance(found, typer.Typer):
        command = get_command(found)
    else:
        alone = a_group("")
        alone.command(name, no_args_is_help=False)(found)
        command = get_command(alone)
    command.name = name
    return command


class LazyCommands(MutableMapping[str, Any]):
    """Looks like the group's dictionary of commands; a value is imported when it is taken out."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = load_command(name, self.entries[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class LazyGroup(TyperGroup):
    """Lists its commands under their sections without loading one. A subclass brings the table."""

    entries: ClassVar[dict[str, Entry]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands(self.entries)

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.entries)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            sections.setdefault(entry.section, []).append((name, entry.sentence))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)
