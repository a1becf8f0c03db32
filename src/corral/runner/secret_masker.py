"""Masks the secrets of specifications in everything that leaves the process: log lines, events, errors.

Secrets are known by value, because a specification names them: the ticket, the values of headers and of environment
variables, and passwords and parameters of addresses. In log lines and error texts every such value is masked. In the
results of tools only values are masked that are secrets by their nature, because an environment also holds folders and
names that results legitimately contain: the ticket, headers, and variables whose name says that they are secret.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from corral.wire.run_work import McpServerSpec, RunSpec

MASK = "••••"
# Shorter values are words of every text; masking them would hide more than a secret.
SECRET_CHARACTERS_MIN = 6
_SECRET_NAME = re.compile(r"password|passwd|token|secret|credential|auth|key|pat\b|jwt|cookie|session", re.I)


class SecretMasker:
    """Replaces the secrets of active runs in everything that leaves the runner process, such as log lines."""

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._sensitive: Counter[str] = Counter()
        self._pattern: re.Pattern[str] | None = None
        self._sensitive_pattern: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"SecretMasker({len(self._all)} secrets)"

    def add_run(self, spec: RunSpec) -> None:
        self._change({spec.ticket, spec.repo_password}, set(), by=1)
        for server in spec.mcp_servers:
            self.add_server(server)

    def remove_run(self, spec: RunSpec) -> None:
        self._change({spec.ticket, spec.repo_password}, set(), by=-1)
        for server in spec.mcp_servers:
            self.remove_server(server)

    def add_server(self, server: McpServerSpec) -> None:
        self._change(*_list_secrets(server), by=1)

    def remove_server(self, server: McpServerSpec) -> None:
        self._change(*_list_secrets(server), by=-1)

    def mask(self, text: str) -> str:
        """Return a log line or an error text without any value of a specification's secret fields."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def mask_result(self, text: str) -> str:
        """Return the result of a tool without the values that are secrets by their nature."""
        return text if self._sensitive_pattern is None else self._sensitive_pattern.sub(MASK, text)

    def _change(self, sensitive: set[str], others: set[str], *, by: int) -> None:
        sensitive = {value for value in sensitive if len(value) >= SECRET_CHARACTERS_MIN}
        others = {value for value in others if len(value) >= SECRET_CHARACTERS_MIN}
        for value in sensitive:
            self._sensitive[value] += by
        for value in sensitive | others:
            self._all[value] += by
        self._sensitive, self._all = +self._sensitive, +self._all
        self._sensitive_pattern = _make_pattern(self._sensitive)
        self._pattern = _make_pattern(self._all)


def _list_secrets(server: McpServerSpec) -> tuple[set[str], set[str]]:
    """Return the values that are secret by their nature, and those that only may be."""
    sensitive: set[str] = set()
    others: set[str] = set()
    for value in server.headers.values():
        sensitive.add(value)
        # `Bearer …`: the credential is quoted without its scheme more often than with it.
        sensitive.add(value.rpartition(" ")[2])
    for name, value in server.env.items():
        (sensitive if _SECRET_NAME.search(name) else others).add(value)
    sensitive |= _list_secret_arguments(server.args)
    try:
        parts = urlsplit(server.url)
    except ValueError:
        # Which parts of an address are secret that cannot be read is not known.
        return sensitive | {server.url}, others
    sensitive.update(unquote(part) for part in (parts.password, parts.username) if part)
    sensitive.update(part for part in (parts.password, parts.username) if part)
    others.update(value for _, value in parse_qsl(parts.query))
    return sensitive, others


def _list_secret_arguments(arguments: Sequence[str]) -> set[str]:
    """Return the values of flags that are named like a secret: `--token=…`, `--token …`."""
    values = set()
    for previous, argument in zip(("", *arguments), arguments, strict=False):
        name, is_pair, value = argument.partition("=")
        if is_pair and _SECRET_NAME.search(name):
            values.add(value)
        elif previous.startswith("-") and "=" not in previous and _SECRET_NAME.search(previous):
            values.add(argument)
    return values


def _make_pattern(values: Counter[str]) -> re.Pattern[str] | None:
    written = {form for value in values for form in (value, json.dumps(value)[1:-1], repr(value)[1:-1])}
    # The longest first: a secret that contains another one is masked as a whole.
    ordered = sorted(written, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None
