"""Keeps LoRA adapters with the models that they change.

An adapter is a model of its own: name, limits, defaults and usage are its own, and it runs in the engines of its base.
Each change of an adapter or of its base ends in `refresh`, in the same transaction: the base's row says which adapters
its engines load, and its run hash changes with them. Guarantees: an adapter that does not fit is in no engine; a base
is not deleted, and becomes no adapter, while it has adapters. Limit: engines take adapters when they start, so the
replicas of a base are replaced when its adapters change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from corral.domain.errors import Conflict, Unprocessable
from corral.domain.model import Model, ModelConfig, ModelFacts
from corral.policy.models.adapters import ADAPTERS_MAX, attach_adapter, find_facts_misfit, find_misfit
from corral.policy.models.gguf import LORA
from corral.store import models as store
from corral.store import replicas as replica_store
from corral.store.database import Transaction

CODE = "bad_adapter"


async def settle_base(tx: Transaction, config: ModelConfig) -> ModelConfig:
    """Return the configuration of an adapter with its base's own name and backend; any other as it is. Raises if the
    base is no model that adapters can have."""
    if not config.base:
        return config
    known = await store.find_model(tx, config.base)
    # Locked, so that it is not deleted meanwhile.
    base = (await store.lock_models(tx, [known.name])).get(known.name) if known is not None else None
    if base is None:
        unknown = await store.make_unknown_error(tx, config.base)
        raise Unprocessable(
            f"The base of {config.name} does not exist: {unknown.message}", hint=unknown.hint, code="base_not_found"
        )
    if base.name == config.name or base.config.base:
        raise Unprocessable(
            f"The base of {config.name} is {base.name}, which is an adapter itself."
            if base.config.base
            else f"{config.name} cannot be its own base.",
            hint="Name the model that the adapter was trained on.",
            code=CODE,
        )
    others = await store.list_adapter_names(tx, config.name)
    if others:
        raise Conflict(
            f"{config.name} has adapters of its own ({_join(others)}), so it cannot become an adapter.",
            hint="Delete them first.",
            code="model_has_adapters",
            details={"adapters": others},
        )
    await _check_count(tx, config, base.name)
    return replace(config, base=base.name, backend=base.config.backend)


async def _check_count(tx: Transaction, config: ModelConfig, base: str) -> None:
    siblings = set(await store.list_adapter_names(tx, base)) - {config.name}
    if len(siblings) >= ADAPTERS_MAX:
        raise Unprocessable(
            f"{base} has {len(siblings)} adapters, and engines load no more than {ADAPTERS_MAX}.",
            hint="Delete one of them first.",
            code="too_many_adapters",
        )


async def check_facts(tx: Transaction, config: ModelConfig, facts: ModelFacts) -> None:
    """Raise `Unprocessable` if the files of an adapter, read before it is saved, do not fit its base."""
    base = await store.find_model(tx, config.base)
    if base is not None and base.files is not None and not base.config.base:
        problem = find_facts_misfit(base.name, base.facts or ModelFacts(), config.name, facts)
        if problem:
            raise _make_misfit_error(config.name, base.name, problem)


def _make_misfit_error(name: str, base: str, problem: str) -> Unprocessable:
    return Unprocessable(
        f"{name} does not fit its base: {problem}", hint=f"corral models show {base}", code="adapter_misfit"
    )


async def check_fit(tx: Transaction, adapter: Model) -> None:
    """Raise `Unprocessable` if an adapter whose files are known does not fit its base."""
    base = await store.find_model(tx, adapter.config.base) if adapter.config.base else None
    if base is None or adapter.files is None or base.files is None:
        return
    problem = find_misfit(base, adapter)
    if problem:
        raise _make_misfit_error(adapter.name, base.name, problem)


async def require_no_adapters(tx: Transaction, name: str) -> None:
    """Raise `Conflict` with their names if a model has adapters: without it they are nothing."""
    names = await store.list_adapter_names(tx, name)
    if names:
        raise Conflict(
            f"{name} is the base of {_join(names)}.",
            hint=f"Delete the adapter{'s' if len(names) > 1 else ''} first: corral models remove {names[0]}",
            code="model_has_adapters",
            details={"adapters": names},
        )


async def refresh(tx: Transaction, name: str) -> int:
    """Write which adapters the engines of a model load now; for an adapter, those of its base. Return how many replicas
    end because of it. A name that means no model changes nothing."""
    model = await store.find_model(tx, name)
    if model is not None and model.config.base:
        model = await store.find_model(tx, model.config.base)
    return 0 if model is None else await refresh_base(tx, model.name)


async def refresh_base(tx: Transaction, base_name: str) -> int:
    locked = (await store.lock_models(tx, [base_name])).get(base_name)
    if locked is None or locked.config.base:
        return 0
    known = await store.list_models(tx, await store.list_adapter_names(tx, locked.name))
    attached = tuple(attach_adapter(one) for one in known if one.config.is_enabled and not find_misfit(locked, one))
    if attached == locked.adapters:
        return 0
    run_hash = await store.put_adapters(tx, locked, attached)
    return await replica_store.mark_stale(tx, locked.name, run_hash, "its adapters were changed")


def require_whole(model: Model) -> None:
    """Raise `Unprocessable` for the files of an adapter that name no base: no engine loads them by themselves."""
    facts = model.facts
    if facts is None or facts.kind != LORA:
        return
    if facts.format == "gguf":
        hint = f"Name its base: corral models edit {model.name}"
    else:
        hint = f"Make it an adapter of a GGUF model: corral quantize {model.name} --type f16 --base MODEL"
    raise Unprocessable(
        f"{model.name} is a LoRA adapter without a base, so no engine loads it.", hint=hint, code="base_missing"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterState:
    """Says whether the engines of its base load an adapter, and why not."""

    base: str
    is_attached: bool
    problem: str = ""


async def find_adapter_state(tx: Transaction, adapter: Model) -> AdapterState:
    """Return whether requests for an adapter can be answered."""
    base = await store.get_model(tx, adapter.config.base)
    if any(one.model == adapter.name for one in base.adapters):
        return AdapterState(base=base.name, is_attached=True)
    return AdapterState(base=base.name, is_attached=False, problem=find_misfit(base, adapter))


def _join(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
