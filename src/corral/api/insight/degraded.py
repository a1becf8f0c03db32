"""What does not work now, in sentences: the same ones in `/api/cluster`, `/api/live` and `/readyz`.

While PostgreSQL or NATS is away, the first sentence also says what is left: how many of the loaded models are served.
Memory alone. Limit: it is what this frontend knows; an engine that has gone meanwhile counts until it has been called.
"""

from __future__ import annotations

from corral.api.parts import Parts


def degraded(parts: Parts) -> list[str]:
    """Empty when all is well."""
    health = parts.health
    health.saw_bus(is_connected=parts.bus.is_connected)
    first, *others = health.sentences(has_leader=parts.leader.is_led) or [""]
    if not first:
        return []
    is_cut_off = health.store is not None or health.kept_as_of is not None or health.bus is not None
    return [f"{first} {_serving(parts)}" if is_cut_off else first, *others]


def _serving(parts: Parts) -> str:
    snapshot = parts.gateway.router.snapshot
    breakers = parts.insight.fleet.breakers()
    loaded = served = 0
    for model in snapshot.list_models():
        if not model.is_enabled:
            continue
        replicas = snapshot.open_replicas(model)
        if not replicas and not snapshot.left_out(model):
            continue
        loaded += 1
        served += any(replica.id not in breakers or breakers[replica.id].state != "open" for replica in replicas)
    if loaded == 0:
        return "No model is loaded."
    return f"Serving {served} of {loaded} loaded {'model' if loaded == 1 else 'models'}."
