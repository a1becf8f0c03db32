"""Loads settings once: defaults, then the file, then the environment, then flags; the later source wins.

Either all settings are right, or one error lists everything that is wrong, each by the name under which it was given.
A variable that starts with CORRAL_ and that no process knows is a warning at start (the shell may be older or newer
than this program) and an error in `corral config check`. Values of secrets never reach an error.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from corral.app.redaction import redact_text
from corral.app.settings.base import BrokenSettingsRules, ProcessSettings
from corral.app.settings.names import (
    PREFIX,
    SettingDoc,
    describe_settings,
    find_nearest_name,
    list_known_variables,
    list_variables,
)
from corral.domain.errors import InvalidRequest, UnknownSetting

S = TypeVar("S", bound=ProcessSettings)

# A secret is one line of text; a larger file must be the wrong one.
SECRET_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOrigin:
    """Says where the value of a setting came from: kind of source (file, variable, flag), name, and file."""

    kind: str
    name: str = ""
    path: Path | None = None

    def __str__(self) -> str:
        location = f" ({self.path})" if self.path else ""
        return f"{self.kind} {self.name}{location}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingProblem:
    """Describes one thing that is wrong with a setting of a process, with a hint for the person who wrote it."""

    setting: str
    sentence: str
    hint: str | None = None
    is_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings(Generic[S]):
    """Holds the settings of a process as they were loaded, with the origin of each value and the warnings."""

    settings: S
    origins: Mapping[str, SettingOrigin]
    # Warnings about unknown variables; the process logs them at start.
    warnings: tuple[str, ...]


@dataclass(slots=True)
class _SettingsCollector:
    """Collects the values of settings from file, environment and flags; a later source overwrites an earlier one."""

    docs: list[SettingDoc]
    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, SettingOrigin] = field(default_factory=dict)
    problems: list[SettingProblem] = field(default_factory=list)
    # Fields whose value could not be read. They are not reported as missing as well.
    unreadable: set[str] = field(default_factory=set)

    def take_source(self, kind: str, given: Mapping[str, object], names: Mapping[str, str]) -> None:
        """Take the values of one source; `names` maps each key to its name in that source."""
        for doc in self.docs:
            file_key = f"{doc.key}_file"
            if doc.secret and file_key in given:
                self._take_secret_file(kind, doc, given, names)
            elif doc.key in given:
                self._take_value(kind, doc, given[doc.key], names[doc.key])

    def _take_value(self, kind: str, doc: SettingDoc, value: object, name: str) -> None:
        is_empty = isinstance(value, str) and not value.strip()
        if is_empty and doc.secret:
            self._fail(
                doc, SettingProblem(setting=name, sentence=f"{name} is empty", hint=f"Unset it, or fill {name}.")
            )
        elif is_empty and kind == "environment":
            return  # An empty variable counts as unset: Compose files pass unset variables on as empty ones.
        else:
            self.values[doc.field] = value
            self.origins[doc.field] = SettingOrigin(kind=kind, name=name)
            self.unreadable.discard(doc.field)

    def _take_secret_file(
        self, kind: str, doc: SettingDoc, given: Mapping[str, object], names: Mapping[str, str]
    ) -> None:
        name = names[f"{doc.key}_file"]
        if given.get(doc.key):
            other = names[doc.key]
            sentence = f"{other} and {name} are both set, but only one of them can be used"
            self._fail(doc, SettingProblem(setting=name, sentence=sentence, hint=f"Unset {other} or {name}."))
            return
        path = Path(str(given[f"{doc.key}_file"])).expanduser()
        try:
            text = _read_secret(path)
        except ValueError as error:
            self._fail(
                doc, SettingProblem(setting=name, sentence=f"{name} {error}", hint=f"Correct the path in {name}.")
            )
            return
        self.values[doc.field] = text
        self.origins[doc.field] = SettingOrigin(kind=kind, name=name, path=path)
        self.unreadable.discard(doc.field)

    def _fail(self, doc: SettingDoc, problem: SettingProblem) -> None:
        self.problems.append(problem)
        self.unreadable.add(doc.field)

    def get_name(self, field_name: str) -> str:
        """Return the name of a field for messages: as it was given, otherwise its variable."""
        origin = self.origins.get(field_name)
        doc = next(doc for doc in self.docs if doc.field == field_name)
        return origin.name if origin else doc.environment


def load_settings(
    model: type[S],
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    config: Path | None = None,
    is_strict: bool = False,
) -> LoadedSettings[S]:
    """Load the settings of one process. `flags` are by key (`node_lease`, `token_file`); None means "not given"."""
    variables = os.environ if environ is None else environ
    reading = _SettingsCollector(docs=describe_settings(model))
    _take_file(reading, model, config, variables)
    _take_environment(reading, variables)
    _take_flags(reading, flags or {})
    unknown = list(_find_unknown_variables(variables, reading.docs))
    if is_strict:
        reading.problems += unknown
    settings = _validate(model, reading)
    if settings is None or reading.problems:
        raise _make_error(reading.problems)
    origins = {doc.field: reading.origins.get(doc.field, SettingOrigin(kind="default")) for doc in reading.docs}
    warnings = tuple(_format_problem(problem) for problem in unknown)
    return LoadedSettings(settings=settings, origins=origins, warnings=() if is_strict else warnings)


def is_configured(model: type[ProcessSettings], *, config: Path | None = None) -> bool:
    """Return whether this process is set up here: one of its required settings is given, or it has none."""
    reading = _SettingsCollector(docs=describe_settings(model))
    _take_file(reading, model, config, os.environ)
    _take_environment(reading, os.environ)
    required = {doc.field for doc in reading.docs if doc.required}
    return not required or bool(required & (reading.values.keys() | reading.unreadable))


def _iter_keys(docs: list[SettingDoc]) -> Iterator[str]:
    for doc in docs:
        yield doc.key
        if doc.secret:
            yield f"{doc.key}_file"


def _take_environment(reading: _SettingsCollector, environ: Mapping[str, str]) -> None:
    names = {key: PREFIX + key.upper() for key in _iter_keys(reading.docs)}
    given = {key: environ[name] for key, name in names.items() if name in environ}
    reading.take_source("environment", given, names)


def _take_flags(reading: _SettingsCollector, flags: Mapping[str, object]) -> None:
    names = {key: "--" + key.replace("_", "-") for key in _iter_keys(reading.docs)}
    given = {key: value for key, value in flags.items() if value is not None}
    assert given.keys() <= names.keys(), f"flags without a setting: {sorted(given.keys() - names.keys())}"
    reading.take_source("flag", given, names)


def _take_file(
    reading: _SettingsCollector, model: type[ProcessSettings], config: Path | None, environ: Mapping[str, str]
) -> None:
    named_by = "--config" if config is not None else "CORRAL_CONFIG"
    path = config or (Path(environ["CORRAL_CONFIG"]) if environ.get("CORRAL_CONFIG") else None)
    if path is None:
        return
    path = path.expanduser()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        sentence = f"{named_by} names a file that cannot be read: {path} ({error.strerror})"
        reading.problems.append(SettingProblem(setting=named_by, sentence=sentence, hint="Correct the path."))
        return
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        sentence = f"{path} is not a TOML file: {error}"
        reading.problems.append(SettingProblem(setting=named_by, sentence=sentence, hint="Correct the file."))
        return
    reading.problems += _find_unknown_in_file(path, tables)
    table = tables.get(model.process, {})
    if isinstance(table, dict):
        names = {key: f"{model.process}.{key} in {path}" for key in _iter_keys(reading.docs)}
        reading.take_source("file", table, names)


def _find_unknown_in_file(path: Path, tables: Mapping[str, object]) -> Iterator[SettingProblem]:
    """Find unknown tables and keys in a file, also in tables of other processes, because one file often serves
    several."""
    from corral.app.settings.models import ALL_MODELS

    models = {model.process: model for model in ALL_MODELS}
    for name, table in tables.items():
        if name not in models:
            yield _make_unknown_problem(name, f"{path} has a table or key [{name}] that no process reads", models)
        elif not isinstance(table, dict):
            yield SettingProblem(setting=name, sentence=f"{name} in {path} is not a table", hint=f"Write [{name}].")
        else:
            known = list(_iter_keys(describe_settings(models[name])))
            for key in table:
                if key not in known:
                    yield _make_unknown_problem(
                        key, f"{path} sets {key} in [{name}], but there is no such setting", known
                    )


def _find_unknown_variables(environ: Mapping[str, str], docs: list[SettingDoc]) -> Iterator[SettingProblem]:
    own = list_variables(docs)
    foreign = sorted(name for name in environ if name.startswith(PREFIX) and name not in own)
    # The settings of the other processes are imported only if there is an unknown variable.
    known = list_known_variables() if foreign else frozenset()
    for name in foreign:
        if name not in known:
            yield _make_unknown_problem(name, f"{name} is set, but there is no such setting", known)


def _make_unknown_problem(name: str, sentence: str, known: Any) -> SettingProblem:
    meant = find_nearest_name(name, known)
    hint = f"Did you mean {meant}?" if meant else "`corral config show` lists all settings."
    return SettingProblem(setting=name, sentence=sentence, hint=hint, is_unknown=True)


def _read_secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"names a file that cannot be read: {path} ({error.strerror})") from error
    if len(content) > SECRET_BYTES_MAX:
        raise ValueError(f"names a file that is too large for a secret: {path}")
    try:
        text = content.decode().strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"names a file that is not text: {path}") from error
    if not text:
        raise ValueError(f"names a file that is empty: {path}")
    return text


def _validate(model: type[S], reading: _SettingsCollector) -> S | None:
    try:
        return model.model_validate(reading.values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            reading.problems += _make_problems(detail, reading)
        return None


def _make_problems(detail: ErrorDetails, reading: _SettingsCollector) -> Iterator[SettingProblem]:
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, BrokenSettingsRules):
        for rule in cause.rules:
            names = [reading.get_name(name) for name in rule.fields]
            yield SettingProblem(setting=names[0], sentence=rule.sentence.format(*names), hint=rule.hint.format(*names))
        return
    doc = next(doc for doc in reading.docs if doc.field == detail["loc"][0])
    # The default depends on another setting, which is wrong and has been reported already.
    if doc.field in reading.unreadable or detail["type"] == "default_factory_not_called":
        return
    name = reading.get_name(doc.field)
    if detail["type"] == "missing":
        variables = [doc.environment] + ([doc.file_environment] if doc.file_environment else [])
        yield SettingProblem(
            setting=name,
            sentence=f"{name} is required",
            hint=f"{doc.description} Set {' or '.join(variables)}, or give {doc.flag}.",
        )
    elif cause is not None:
        yield SettingProblem(setting=name, sentence=f"{name} {cause}")
    else:
        shown_value = "" if doc.secret else f" ({redact_text(str(reading.values.get(doc.field)))!r})"
        message = detail["msg"]
        yield SettingProblem(
            setting=name, sentence=f"{name} is not valid{shown_value}: {message[0].lower()}{message[1:]}"
        )


def _format_problem(problem: SettingProblem) -> str:
    return f"{problem.sentence}. {problem.hint}" if problem.hint else problem.sentence


def _make_error(problems: list[SettingProblem]) -> InvalidRequest:
    kind = UnknownSetting if all(problem.is_unknown for problem in problems) else InvalidRequest
    details = {
        "problems": [{"setting": item.setting, "message": item.sentence, "hint": item.hint} for item in problems]
    }
    if len(problems) == 1:
        return kind(problems[0].sentence, hint=problems[0].hint, details=details)
    listed = "".join(f"\n  - {_format_problem(problem)}" for problem in problems)
    hint = "`corral config check` checks the settings without starting anything."
    return kind(f"{len(problems)} settings are invalid:{listed}", hint=hint, details=details)
