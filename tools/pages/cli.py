"""Renders `cli.md`: every command with its arguments and options, by walking the command tree."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import typer.main

from tools.markdown import format_code, format_page, format_table, make_anchor
from tools.source import DocsProblem

_INTRODUCTION = """\
Data goes to standard output, everything else to standard error. Exit codes: 0 success, 1 refused or failed,
2 a mistake in the command line or a bug in Corral, 130 interrupted. `NO_COLOR` is respected. An error is one
sentence after `error:`, and what to do about it after `hint:`. With `--json` it is one line of JSON on standard error:
`{"error": {"code": …, "message": …, "hint": …, "details": {…}}}`, the last line there."""
# Options of Typer, which are the same in every program.
_COMPLETION = frozenset({"--install-completion", "--show-completion", "--help"})
_REQUIRED = "**required**"
_NOTE = re.compile(r"\s*\[([^\[\]]+)\]\s*$")


def render() -> str:
    if importlib.util.find_spec("corral.cli.main") is None:
        raise DocsProblem("corral.cli.main does not exist.")
    from corral.cli.main import app  # noqa: PLC0415 - the page of the other tools is written without it

    commands = list(_walk(typer.main.get_command(app), "corral"))
    rows = [(f"[`{name}`]({make_anchor(name)})", _first_line(command)) for name, command in commands]
    blocks = [format_table(["command", "what it does"], rows)]
    for name, command in commands:
        blocks += [f"## {name}", _help(command), _usage(name, command)]
        options = [_option(item) for item in command.params if _is_shown(item)]
        if options:
            blocks.append(format_table(["argument or option", "variable", "default", "what it does"], options))
    return format_page("Command line", _INTRODUCTION, *blocks)


def _walk(command: Any, name: str) -> list[tuple[str, Any]]:
    """Return the commands that do something; a group is only a name before them, unless it does something itself."""
    children = getattr(command, "commands", None)
    if not children:
        return [(name, command)]
    own = [(name, command)] if command.invoke_without_command else []
    found = [below for child in sorted(children) for below in _walk(children[child], f"{name} {child}")]
    return own + [(path, one) for path, one in found if not one.hidden]


def _help(command: Any) -> str:
    return "\n".join(line.strip() for line in (command.help or "").replace("\b", "").splitlines())


def _first_line(command: Any) -> str:
    return next((line for line in _help(command).splitlines() if line), "")


def _usage(name: str, command: Any) -> str:
    words = [name]
    words += ["[OPTIONS]"] if any(item.param_type_name == "option" for item in command.params) else []
    for item in command.params:
        if item.param_type_name == "argument":
            shown = _argument(item) + ("…" if item.nargs == -1 else "")
            words.append(shown if item.required else f"[{shown}]")
    return f"```\n{' '.join(words)}\n```"


def _argument(item: Any) -> str:
    return str(item.metavar or item.name).strip("[]").upper()


def _is_shown(item: Any) -> bool:
    return not getattr(item, "hidden", False) and not _COMPLETION & set(item.opts)


def _option(item: Any) -> tuple[str, str, str, str]:
    is_argument = item.param_type_name == "argument"
    names = [_argument(item)] if is_argument else [*item.opts, *item.secondary_opts]
    notes = _HelpText(item.help or "")
    variables = [item.envvar] if isinstance(item.envvar, str) else list(item.envvar or notes.variables)
    return (
        ", ".join(format_code(name) for name in names),
        ", ".join(format_code(name) for name in variables) or "-",
        _default(item) or notes.default or "-",
        notes.sentence,
    )


class _HelpText:
    """Splits a help text into its sentence and the notes in brackets at its end."""

    def __init__(self, text: str) -> None:
        self.variables: list[str] = []
        self.default = ""
        while found := _NOTE.search(text):
            text = text[: found.start()]
            word, _, rest = found[1].partition(": ")
            if word == "env":
                self.variables = [name.strip() for name in rest.split(",")]
            elif word == "required":
                self.default = _REQUIRED
            else:
                self.default = rest if word == "default" else found[1]
        self.sentence = text.strip()


def _default(item: Any) -> str:
    if item.required:
        return _REQUIRED
    value = item.default
    if value is None or value in ((), []) or callable(value) or not item.show_default:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).replace(str(Path.home()), "~")
