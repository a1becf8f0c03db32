"""Renders `settings.md`: every setting of every process, from the models themselves."""

from __future__ import annotations

import inspect

from corral.app.settings import ALL_MODELS, ProcessSettings, SettingDoc, describe_settings
from tools.markdown import format_code, format_page, format_table

_INTRODUCTION = """\
A setting has one name in three spellings: a flag, a variable, a key in the file. Flags win over variables, variables
over the file, the file over the defaults. The file is TOML with one table for each process, and `CORRAL_CONFIG` names
it. Every secret can also be read from a file: give the variable with `_FILE` at its end the path. Durations are
written `30s`, `5m`, `1h` or as plain seconds.

`corral config check` finds mistakes; `corral config show` prints what holds, where it came from, and no secret.

`request_wait`, `model_idle`, `disk_check`, `response_headers` and `log_level` of frontends are live: an admin changes
them for all frontends while they run, on the page under Settings, with `corral settings set request_wait=90s` or with
`POST /api/settings`. A changed value wins over the default and over nothing else: a flag, a variable or the file of a
frontend takes precedence there. `corral settings list` shows the values at the frontend that responds, and
`corral settings reset request_wait` goes back to the default."""


def render() -> str:
    blocks = [_INTRODUCTION]
    for model in ALL_MODELS:
        blocks += [
            f"## {model.process}",
            _purpose(model),
            format_table(_HEAD, [_row(doc) for doc in describe_settings(model)]),
        ]
    return format_page("Settings", *blocks)


_HEAD = ["key", "flag", "variable", "kind", "default", "what it does"]


def _row(doc: SettingDoc) -> list[str]:
    variable = format_code(doc.environment)
    if doc.file_environment:
        variable += f" or {format_code(doc.file_environment)}"
    default = "**required**" if doc.required else (doc.default if doc.default is not None else "not set")
    return [format_code(doc.key), format_code(doc.flag), variable, doc.kind, default, doc.description]


def _purpose(model: type[ProcessSettings]) -> str:
    return inspect.getdoc(model) or ""
