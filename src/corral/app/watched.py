"""What insight sees of this frontend: the models and replicas in its memory, and the requests under way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from corral.insight.going import UnderWay
from corral.insight.insight import Breaker
from corral.serving.gateway import Gateway


class Watched:
    """`insight.Fleet`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

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
