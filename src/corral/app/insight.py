"""Connects the insight package to this frontend: the models, replicas and requests in its memory, the trace exporter,
and the settings that can be changed while it runs. Live settings are validated by the same types as at the start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import TypeAdapter, ValidationError

from corral import __version__
from corral.api.deps import ApiDeps
from corral.api.insight import count_in_flight_by_node, read_live
from corral.api.live_views import LiveViews
from corral.app.core_options import CoreDeps
from corral.app.settings import FrontendSettings
from corral.app.settings.display import format_value
from corral.app.settings.names import SettingDoc, describe_settings
from corral.domain.errors import INSTALL_HINT, InvalidRequest
from corral.gateway.exchange.gateway import Gateway
from corral.insight.live_settings import DEFAULT_SOURCE, LiveSetting, LiveSettings
from corral.insight.request_monitor import BreakerStatus, OpenRequest, RequestMonitor
from corral.insight.traffic_aggregator import TrafficAggregator
from corral.ports.requests import SpanExporter
from corral.reconcile.scaling import ScalingReconciler
from corral.store.database import Database
from corral.wire.cluster import SettingOut


class GatewayFleetView:
    """Shows a frontend's models, circuit breakers and open requests to its request monitor. Implements `FleetView`."""

    def __init__(self, gateway: Gateway, is_leader: Callable[[], bool]) -> None:
        self._gateway = gateway
        self.is_leader = is_leader

    def list_models(self) -> Collection[str]:
        return {model.name for model in self._gateway.router.snapshot.list_models()}

    def list_breakers(self) -> Mapping[str, BreakerStatus]:
        now = self._gateway.clock.monotonic()
        return {
            routable.replica.id: BreakerStatus(model=routable.replica.model, state=routable.breaker.get_state(now))
            for routable in self._gateway.router.snapshot.pools
        }

    def list_open_requests(self) -> Iterable[OpenRequest]:
        return self._gateway.open_exchanges


def make_live_views(
    deps: CoreDeps, request_monitor: RequestMonitor, frontend_id: str, get_api_deps: Callable[[], ApiDeps]
) -> LiveViews:
    """Build the live views. `get_api_deps` is called when the first client watches, by which time the core is
    complete."""
    sharing = TrafficAggregator(request_monitor, deps.bus, deps.clock, frontend_id)
    return LiveViews(
        deps.database,
        deps.clock,
        sharing,
        lambda: read_live(get_api_deps()),
        lambda tx: count_in_flight_by_node(get_api_deps(), tx),
    )


def open_span_exporter(settings: FrontendSettings, frontend_id: str) -> SpanExporter | None:
    """Return the exporter for traces, or None if no collector is set. Raises `InvalidRequest` if the needed extra is
    not installed."""
    if settings.otlp_endpoint is None:
        return None
    try:
        from corral.adapters.traces import OtlpSpanExporter  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InvalidRequest(
            "otlp_endpoint is set, and the library for it is not installed.",
            hint=INSTALL_HINT.format(extra="otel"),
        ) from error
    return OtlpSpanExporter(settings.otlp_endpoint, version=__version__, frontend_id=frontend_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettingTarget:
    """Connects a setting that can change at run time to a frontend: its value at the start, and who applies it."""

    initial: Any
    apply: Callable[[Any], None]


class DiskCheckHolder(Protocol):
    """Interface of the object with the switch `checks_disk`, which a setting flips at run time.

    On: a model may not be placed where its files do not fit.
    """

    checks_disk: bool


def list_live_setting_targets(
    disk: DiskCheckHolder, gateway: Gateway, scaling: ScalingReconciler, *, log_level: LiveSettingTarget
) -> dict[str, LiveSettingTarget]:
    """Return the objects that apply each setting that can be changed while a frontend runs, by the name of its
    field."""

    def make_target(of: object, attribute: str) -> LiveSettingTarget:
        return LiveSettingTarget(initial=getattr(of, attribute), apply=lambda value: setattr(of, attribute, value))

    def set_idle(idle_s: float) -> None:
        scaling.idle_s = idle_s or None

    return {
        "request_wait_s": make_target(gateway, "wait_s"),
        "response_headers": make_target(gateway, "has_response_headers"),
        "disk_check": make_target(disk, "checks_disk"),
        "model_idle_s": LiveSettingTarget(initial=scaling.idle_s or 0.0, apply=set_idle),
        "log_level": log_level,
    }


def make_live_settings(
    database: Database, shown_settings: Iterable[SettingOut], targets: Mapping[str, LiveSettingTarget]
) -> LiveSettings:
    """Build the live settings. `shown_settings` are the settings of this frontend as shown, `targets` are keyed by
    field name."""
    sources = {setting.name: setting.source for setting in shown_settings}
    docs = describe_settings(FrontendSettings)
    live = [
        _make_live_setting(doc, targets[doc.field], sources.get(doc.key, DEFAULT_SOURCE))
        for doc in docs
        if doc.field in targets
    ]
    return LiveSettings(database, live, [doc.key for doc in docs])


def _make_live_setting(doc: SettingDoc, target: LiveSettingTarget, source: str) -> LiveSetting:
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
        initial=target.initial,
        source=source,
        parse=parse,
        format=lambda value: format_value(doc, value) or "",
        apply=target.apply,
    )
