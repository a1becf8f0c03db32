"""Calls about models: configurations and their revisions, galleries, installing, and a whole fleet at once.

A configuration is a mapping, as it is written. A model is named by its name or an alias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from corral.client.http import Call, Transport
from corral.wire.backends import GalleryOut, RefreshOut
from corral.wire.loads import LoadIn, UnloadIn
from corral.wire.models import (
    AskedModelOut,
    DiffOut,
    FleetOut,
    GalleryPageOut,
    InstallModelIn,
    ModelOut,
    ModelPlanOut,
    RenameIn,
    RevisionOut,
    RollbackIn,
    SavedOut,
    UriIn,
    VariantsOut,
)

PAGE_ITEMS_MAX = 200
# By another name: in a class with a method `list`, that word means the method.
Models = list[ModelOut]
Revisions = list[RevisionOut]
SavedModels = list[SavedOut]
Galleries = list[GalleryOut]
_PLAN = {"plan": "true"}


def model_path(verb: str, name: str) -> str:
    """The name is one segment, whatever it holds."""
    return f"/api/models/{verb}/{quote(name, safe='')}"


class ModelCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> Models:
        return await self._transport.fetch(Call(method="GET", path="/api/models/configs"), Models)

    async def get(self, name: str) -> ModelOut:
        return await self._transport.fetch(Call(method="GET", path=model_path("config", name)), ModelOut)

    async def put(self, name: str, config: Mapping[str, Any], *, seen: int | None = None) -> SavedOut:
        """Make it, or make it so. `seen`: refused if there is a newer revision; 0: refused if there is any."""
        call = Call(method="PUT", path=model_path("config", name), body=config, headers=_seen(seen))
        return await self._transport.fetch(call, SavedOut)

    async def patch(self, name: str, change: Mapping[str, Any], *, seen: int | None = None) -> SavedOut:
        call = Call(method="PATCH", path=model_path("config", name), body=change, headers=_seen(seen))
        return await self._transport.fetch(call, SavedOut)

    async def forget(self, name: str) -> SavedOut:
        """Delete it at once, without an operation to follow."""
        return await self._transport.fetch(Call(method="DELETE", path=model_path("config", name)), SavedOut)

    async def remove(self, name: str) -> AskedModelOut:
        """Delete it as an operation."""
        call = Call(method="POST", path=model_path("delete", name), creates=True)
        return await self._transport.fetch(call, AskedModelOut)

    async def revisions(self, name: str) -> Revisions:
        return await self._transport.fetch(Call(method="GET", path=model_path("revisions", name)), Revisions)

    async def diff(self, name: str, *, old: int | None = None, new: int | None = None) -> DiffOut:
        given = {"old": old, "new": new}
        parameters = {key: str(value) for key, value in given.items() if value is not None}
        call = Call(method="GET", path=model_path("diff", name), parameters=parameters)
        return await self._transport.fetch(call, DiffOut)

    async def roll_back(self, name: str, revision: int) -> SavedOut:
        call = Call(method="POST", path=model_path("rollback", name), body=RollbackIn(revision=revision))
        return await self._transport.fetch(call, SavedOut)

    async def rename(self, names: Mapping[str, str]) -> SavedModels:
        call = Call(method="POST", path="/api/models/rename", body=RenameIn(names=dict(names)))
        return await self._transport.fetch(call, SavedModels)

    async def set_enabled(self, name: str, *, enabled: bool) -> SavedOut:
        path = f"/models/toggle-state/{quote(name, safe='')}/{'enable' if enabled else 'disable'}"
        return await self._transport.fetch(Call(method="PUT", path=path), SavedOut)

    async def set_pinned(self, name: str, *, pinned: bool) -> SavedOut:
        path = f"/models/toggle-pinned/{quote(name, safe='')}/{'pin' if pinned else 'unpin'}"
        return await self._transport.fetch(Call(method="PUT", path=path), SavedOut)

    async def search(self, term: str = "", *, page: int = 1, folds_variants: bool = False) -> GalleryPageOut:
        """A page of the galleries."""
        parameters = {"page": str(page), "items": str(PAGE_ITEMS_MAX)} | ({"term": term} if term else {})
        parameters |= {"collapse_variants": "true"} if folds_variants else {}
        return await self._transport.fetch(
            Call(method="GET", path="/api/models", parameters=parameters), GalleryPageOut
        )

    async def variants(self, entry: str) -> VariantsOut:
        return await self._transport.fetch(Call(method="GET", path=model_path("variants", entry)), VariantsOut)

    async def install(self, entry: str, wish: InstallModelIn) -> AskedModelOut:
        call = Call(method="POST", path=model_path("install", entry), body=wish, creates=True)
        return await self._transport.fetch(call, AskedModelOut)

    async def plan_install(self, entry: str, wish: InstallModelIn) -> ModelPlanOut:
        call = Call(method="POST", path=model_path("install", entry), body=wish, parameters=_PLAN)
        return await self._transport.fetch(call, ModelPlanOut)

    async def import_uri(self, wish: UriIn) -> AskedModelOut:
        call = Call(method="POST", path="/models/import-uri", body=wish, creates=True)
        return await self._transport.fetch(call, AskedModelOut)

    async def load(self, name: str, wish: LoadIn | None = None) -> AskedModelOut:
        """One replica more, or several."""
        call = Call(method="POST", path=f"/api/models/{quote(name, safe='')}/load", body=wish or LoadIn(), creates=True)
        return await self._transport.fetch(call, AskedModelOut)

    async def unload(self, name: str, wish: UnloadIn | None = None) -> AskedModelOut:
        """End replicas: all of them, or those of some nodes."""
        call = Call(
            method="POST", path=f"/api/models/{quote(name, safe='')}/unload", body=wish or UnloadIn(), creates=True
        )
        return await self._transport.fetch(call, AskedModelOut)

    async def galleries(self) -> Galleries:
        return await self._transport.fetch(Call(method="GET", path="/api/models/galleries"), Galleries)

    async def refresh_galleries(self) -> RefreshOut:
        """Have them fetched anew; the answer is what is known now."""
        return await self._transport.fetch(Call(method="POST", path="/api/models/galleries/refresh"), RefreshOut)


class FleetCalls:
    """The whole fleet as one file."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def export(self) -> dict[str, Any]:
        return await self._transport.fetch(Call(method="GET", path="/api/fleet"), dict[str, Any])

    async def apply(self, fleet: Mapping[str, Any], *, plan: bool = False, prune: bool = False) -> FleetOut:
        given = {"plan": plan, "prune": prune}
        parameters = {key: "true" for key, value in given.items() if value}
        call = Call(method="POST", path="/api/fleet", body=fleet, parameters=parameters)
        return await self._transport.fetch(call, FleetOut)


def _seen(revision: int | None) -> dict[str, str]:
    if revision is None:
        return {}
    return {"If-Match": f'"{revision}"'} if revision else {"If-None-Match": "*"}
