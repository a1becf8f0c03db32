"""Settings that admins change while frontends run: stored in PostgreSQL, and reloaded by every frontend.

Guarantee: a change is checked as at a start, is written with its audit line and its event in one transaction, and is in
force at the frontend that handles it before its response. A value that a frontend was given at its start (a flag, a
variable, its file) wins there, and changing it here is refused. Limit: the other frontends follow with the feed; a
frontend that starts while PostgreSQL is down runs with the values of its start until it has read the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import structlog

from corral.domain.cluster import OutboxEvent
from corral.domain.errors import Conflict, InvalidRequest
from corral.store import access as access_store
from corral.store import cluster as cluster_store
from corral.store import outbox
from corral.store.database import Database

log = structlog.get_logger(__name__)

CHANGED = "settings.changed"
DEFAULT_SOURCE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSetting:
    """Describes a setting that can change while a frontend runs.

    `apply` hands a value to its owner, who reads it at use.
    """

    name: str
    # The value at the start, and its source.
    initial: object
    source: str
    # Parses a value; the message of its ValueError continues a sentence that begins with the name.
    parse: Callable[[object], object]
    # Formats a value as it would be written in an environment variable.
    format: Callable[[object], str]
    apply: Callable[[object], None]

    @property
    def is_fixed(self) -> bool:
        """Return whether this frontend was given the value at its start, so that a stored one does not count here."""
        return self.source != DEFAULT_SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """The value of one setting that is in force at this frontend now, and where the value came from."""

    value: str
    source: str


class LiveSettings:
    """Loads and changes the settings of frontends that are stored in PostgreSQL.

    `known` has the names of all settings of a frontend, live or not.
    """

    def __init__(self, database: Database, settings: Iterable[LiveSetting], known: Collection[str]) -> None:
        self._database = database
        self._settings = {setting.name: setting for setting in settings}
        self._known_names = frozenset(known) | self._settings.keys()
        self._effective = {
            name: EffectiveSetting(value=setting.format(setting.initial), source=setting.source)
            for name, setting in self._settings.items()
        }

    @property
    def effective(self) -> Mapping[str, EffectiveSetting]:
        """Return every live setting by its name."""
        return self._effective

    async def load(self) -> None:
        """Read the stored settings and apply those that count here."""
        async with self._database.transaction() as tx:
            stored = await cluster_store.list_settings(tx)
        for setting in self._settings.values():
            self._take(setting, stored.get(setting.name))

    async def follow(self, events: Iterable[OutboxEvent]) -> None:
        if any(event.kind == CHANGED for event in events):
            await self.load()

    async def change(self, values: Mapping[str, object], actor: str) -> None:
        """Store values by name, all or none; None goes back to the frontends' own value."""
        checked = {name: self._check(name, value) for name, value in values.items()}
        async with self._database.transaction() as tx:
            for name, text in sorted(checked.items()):
                if text is None:
                    await cluster_store.delete_setting(tx, name)
                else:
                    await cluster_store.put_setting(tx, name, text, actor)
                await access_store.record_audit(tx, actor, "settings.change", name, "reset" if text is None else text)
            await outbox.append(tx, "settings.changed", "cluster", {"names": sorted(checked)})
        await self.load()

    def _take(self, setting: LiveSetting, stored: cluster_store.StoredSetting | None) -> None:
        value, source = setting.initial, setting.source
        if stored is not None and not setting.is_fixed:
            try:
                value, source = setting.parse(stored.value), f"cluster, changed by {stored.changed_by}"
            except ValueError as error:
                # Another version may have stored settings that this one does not know.
                log.warning("stored setting is ignored", setting=setting.name, problem=str(error))
        effective = EffectiveSetting(value=setting.format(value), source=source)
        if effective != self._effective[setting.name]:
            setting.apply(value)
            self._effective[setting.name] = effective
            log.info("setting changed", setting=setting.name, value=effective.value, source=source)

    def _check(self, name: str, value: object) -> str | None:
        """Return the text to store; None means that the row is deleted."""
        setting = self._settings.get(name)
        if setting is None:
            raise self._refuse(name)
        if setting.is_fixed:
            raise Conflict(
                f"The setting {name} was set at the start of this frontend, by {setting.source}, and that wins.",
                hint="Change it there and restart the frontend, or remove it there to change it here.",
                code="setting_fixed",
            )
        if value is None:
            return None
        try:
            return setting.format(setting.parse(value))
        except ValueError as error:
            raise InvalidRequest(
                f"The setting {name} {error}.", hint=f"It is {self._effective[name].value} now.", code="bad_setting"
            ) from error

    def _refuse(self, name: str) -> InvalidRequest:
        if name in self._known_names:
            return InvalidRequest(
                f"The setting {name} is read at the start of a frontend and cannot be changed while it runs.",
                hint=f"Set CORRAL_{name.upper()}, or {name} in the file, and restart the frontends.",
                code="setting_not_live",
            )
        near = get_close_matches(name, sorted(self._known_names), n=1, cutoff=0.75)
        hint = f"Did you mean {near[0]}?" if near else f"These can be changed: {', '.join(sorted(self._settings))}."
        return InvalidRequest(f"There is no setting {name[:80]!r}.", hint=hint, code="unknown_setting")
