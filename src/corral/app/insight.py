"""What insight is given of this frontend: the models, replicas and requests in its memory, where traces go, and
which settings can be changed while it runs. These are read by the same types as at a start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import TypeAdapter, ValidationError

from corral import __version__
from corral.api.insight.live import busy_nodes, look
from corral.api.parts import Parts
from corral.api.stream.board import Board
from corral.app.options import World
from corral.app.settings import FrontendSettings
from corral.app.settings.names import SettingDoc, document
from corral.app.settings.showing import text_of
from corral.domain.errors import INSTALL_HINT, InvalidRequest
from corral.insight.going import UnderWay
from corral.insight.insight import Breaker, Insight
from corral.insight.live_settings import DEFAULT_SOURCE, LiveSetting, LiveSettings
from corral.insight.sharing import Sharing
from corral.ports.traces import Spans
from corral.reconcile.scaling import Scaling
from corral.serving.gateway import Gateway
from corral.store.database import Database
from corral.wire.settings import SettingOut


class Watched:
    """`insight.Fleet`."""

    def __init__(self, gateway: Gateway, leads: Callable[[], bool]) -> None:
        self._gateway = gateway
        self.leads = leads

    def models(self) -> Collection[str]:
        return {model.name for model in self._gateway.router.snapshot.list_models()}

    def breakers(self) -> Mapping[str, Breaker]:
        now = self._gateway.clock.monotonic()
        return {
            seat.replica.id: Breaker(model=seat.replica.model, state=seat.breaker.state(now))
            for seat in self._gateway.router.snapshot.seats
        }

    def under_way(self) -> Iterable[UnderWay]:
        return self._gateway.open


def make_board(world: World, insight: Insight, frontend_id: str, parts: Callable[[], Parts]) -> Board:
    """`parts` are there when the first watcher is."""
    sharing = Sharing(insight, world.bus, world.clock, frontend_id)
    return Board(world.database, world.clock, sharing, lambda: look(parts()), lambda tx: busy_nodes(parts(), tx))


def open_spans(settings: FrontendSettings, frontend_id: str) -> Spans | None:
    """None if there is no collector; `InvalidRequest` if what it takes is not installed."""
    if settings.otlp_endpoint is None:
        return None
    try:
        from corral.adapters.traces import OtlpSpans  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InvalidRequest(
            "otlp_endpoint is set, and the library for it is not installed.",
            hint=INSTALL_HINT.format(extra="otel"),
        ) from error
    return OtlpSpans(settings.otlp_endpoint, version=__version__, frontend_id=frontend_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOwner:
    """What a setting is at the start, and who is handed another value."""

    initial: Any
    apply: Callable[[Any], None]


class DiskChecker(Protocol):
    """Whoever holds whether a model may go where its files do not fit."""

    checks_disk: bool


def list_owners(
    disk: DiskChecker, gateway: Gateway, scaling: Scaling, *, log_level: SettingOwner
) -> dict[str, SettingOwner]:
    """Return who reads each setting that can be changed while a frontend runs, by the name of its field."""

    def owner(of: object, attribute: str) -> SettingOwner:
        return SettingOwner(initial=getattr(of, attribute), apply=lambda value: setattr(of, attribute, value))

    def set_idle(idle_s: float) -> None:
        scaling.idle_s = idle_s or None

    return {
        "request_wait_s": owner(gateway, "wait_s"),
        "response_headers": owner(gateway, "has_response_headers"),
        "disk_check": owner(disk, "checks_disk"),
        "model_idle_s": SettingOwner(initial=scaling.idle_s or 0.0, apply=set_idle),
        "log_level": log_level,
    }


def make_live_settings(
    database: Database, given: Iterable[SettingOut], owners: Mapping[str, SettingOwner]
) -> LiveSettings:
    """`given`: the settings of this frontend as they are shown. `owners` by the name of the field."""
    sources = {setting.name: setting.source for setting in given}
    docs = document(FrontendSettings)
    live = [_live(doc, owners[doc.field], sources.get(doc.key, DEFAULT_SOURCE)) for doc in docs if doc.field in owners]
    return LiveSettings(database, live, [doc.key for doc in docs])


def _live(doc: SettingDoc, owner: SettingOwner, source: str) -> LiveSetting:
    info = FrontendSettings.model_fields[doc.field]
    annotation: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)

    def parse(value: object) -> object:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            message = str(error.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
            raise ValueError(message if message.startswith(("is ", "has ")) else f"is not valid: {message}") from None

    return LiveSetting(
        name=doc.key,
        initial=owner.initial,
        source=source,
        parse=parse,
        format=lambda value: text_of(doc, value) or "",
        apply=owner.apply,
    )
