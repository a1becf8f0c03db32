"""What insight is given of this frontend: the models, replicas and requests in its memory, and where traces go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from corral import __version__
from corral.api.insight.live import busy_nodes, look
from corral.api.parts import Parts
from corral.api.stream.board import Board
from corral.app.options import World
from corral.app.settings import FrontendSettings
from corral.domain.errors import INSTALL_HINT, InvalidRequest
from corral.insight.going import UnderWay
from corral.insight.insight import Breaker, Insight
from corral.insight.sharing import Sharing
from corral.ports.traces import Spans
from corral.serving.gateway import Gateway


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
