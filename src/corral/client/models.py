"""Calls about models: configurations and their revisions, galleries, installing, loads, rules, and a whole fleet at
once.

A configuration is a mapping, as it is written. A model is named by its name or an alias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from corral.client.transport import ApiRequest, ApiTransport, make_revision_headers
from corral.wire.backends import GalleryOut, GalleryRefreshOut
from corral.wire.loads import LoadIn, LoadPlanIn, LoadPlanOut, UnloadIn
from corral.wire.models import (
    FleetChangesOut,
    GalleryPageOut,
    ImportUriIn,
    InstallModelIn,
    ModelOperationOut,
    ModelOut,
    ModelPlanOut,
    RenameIn,
    RevisionDiffOut,
    RevisionOut,
    RollbackIn,
    RuleOut,
    SavedModelOut,
    VariantsOut,
)

PAGE_ITEMS_MAX = 200
# An alias, because inside a class with a method `list` that name means the method.
Models = list[ModelOut]
Revisions = list[RevisionOut]
SavedModels = list[SavedModelOut]
Galleries = list[GalleryOut]
_PLAN = {"plan": "true"}


def make_model_path(verb: str, name: str) -> str:
    """Return the path of a model's route. The name is quoted as one segment."""
    return f"/api/models/{verb}/{quote(name, safe='')}"


class ModelCalls:
    """Client-side calls of the HTTP API about models: configurations, revisions, galleries, loading, unloading."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self) -> Models:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/models/configs"), Models)

    async def get(self, name: str) -> ModelOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=make_model_path("config", name)), ModelOut)

    async def put(self, name: str, config: Mapping[str, Any], *, expected_revision: int | None = None) -> SavedModelOut:
        """Create a model or store a new revision. `expected_revision`: refused if there is a newer one; 0: refused if
        the model exists."""
        call = ApiRequest(
            method="PUT",
            path=make_model_path("config", name),
            body=config,
            headers=make_revision_headers(expected_revision),
        )
        return await self._transport.fetch(call, SavedModelOut)

    async def patch(
        self, name: str, change: Mapping[str, Any], *, expected_revision: int | None = None
    ) -> SavedModelOut:
        call = ApiRequest(
            method="PATCH",
            path=make_model_path("config", name),
            body=change,
            headers=make_revision_headers(expected_revision),
        )
        return await self._transport.fetch(call, SavedModelOut)

    async def delete_now(self, name: str) -> SavedModelOut:
        """Delete the model at once, without an operation to follow."""
        return await self._transport.fetch(
            ApiRequest(method="DELETE", path=make_model_path("config", name)), SavedModelOut
        )

    async def request_delete(self, name: str) -> ModelOperationOut:
        """Start an operation that deletes the model."""
        call = ApiRequest(method="POST", path=make_model_path("delete", name), creates=True)
        return await self._transport.fetch(call, ModelOperationOut)

    async def list_revisions(self, name: str) -> Revisions:
        return await self._transport.fetch(ApiRequest(method="GET", path=make_model_path("revisions", name)), Revisions)

    async def diff_revisions(self, name: str, *, old: int | None = None, new: int | None = None) -> RevisionDiffOut:
        given = {"old": old, "new": new}
        parameters = {key: str(value) for key, value in given.items() if value is not None}
        call = ApiRequest(method="GET", path=make_model_path("diff", name), parameters=parameters)
        return await self._transport.fetch(call, RevisionDiffOut)

    async def roll_back(self, name: str, revision: int) -> SavedModelOut:
        call = ApiRequest(method="POST", path=make_model_path("rollback", name), body=RollbackIn(revision=revision))
        return await self._transport.fetch(call, SavedModelOut)

    async def rename(self, names: Mapping[str, str]) -> SavedModels:
        call = ApiRequest(method="POST", path="/api/models/rename", body=RenameIn(names=dict(names)))
        return await self._transport.fetch(call, SavedModels)

    async def set_enabled(self, name: str, *, enabled: bool) -> SavedModelOut:
        path = f"/models/toggle-state/{quote(name, safe='')}/{'enable' if enabled else 'disable'}"
        return await self._transport.fetch(ApiRequest(method="PUT", path=path), SavedModelOut)

    async def set_pinned(self, name: str, *, pinned: bool) -> SavedModelOut:
        path = f"/models/toggle-pinned/{quote(name, safe='')}/{'pin' if pinned else 'unpin'}"
        return await self._transport.fetch(ApiRequest(method="PUT", path=path), SavedModelOut)

    async def search(self, term: str = "", *, page: int = 1, folds_variants: bool = False) -> GalleryPageOut:
        """Return one page of the galleries."""
        parameters = {"page": str(page), "items": str(PAGE_ITEMS_MAX)} | ({"term": term} if term else {})
        parameters |= {"collapse_variants": "true"} if folds_variants else {}
        return await self._transport.fetch(
            ApiRequest(method="GET", path="/api/models", parameters=parameters), GalleryPageOut
        )

    async def list_variants(self, entry: str) -> VariantsOut:
        return await self._transport.fetch(
            ApiRequest(method="GET", path=make_model_path("variants", entry)), VariantsOut
        )

    async def install(self, entry: str, body: InstallModelIn) -> ModelOperationOut:
        call = ApiRequest(method="POST", path=make_model_path("install", entry), body=body, creates=True)
        return await self._transport.fetch(call, ModelOperationOut)

    async def plan_install(self, entry: str, body: InstallModelIn) -> ModelPlanOut:
        call = ApiRequest(method="POST", path=make_model_path("install", entry), body=body, parameters=_PLAN)
        return await self._transport.fetch(call, ModelPlanOut)

    async def import_uri(self, body: ImportUriIn) -> ModelOperationOut:
        call = ApiRequest(method="POST", path="/models/import-uri", body=body, creates=True)
        return await self._transport.fetch(call, ModelOperationOut)

    async def load(self, name: str, body: LoadIn | None = None) -> ModelOperationOut:
        """Start an operation that loads one more replica, or several."""
        call = ApiRequest(
            method="POST", path=f"/api/models/{quote(name, safe='')}/load", body=body or LoadIn(), creates=True
        )
        return await self._transport.fetch(call, ModelOperationOut)

    async def unload(self, name: str, body: UnloadIn | None = None) -> ModelOperationOut:
        """Start an operation that stops all replicas, or those on some nodes."""
        call = ApiRequest(
            method="POST", path=f"/api/models/{quote(name, safe='')}/unload", body=body or UnloadIn(), creates=True
        )
        return await self._transport.fetch(call, ModelOperationOut)

    async def list_galleries(self) -> Galleries:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/models/galleries"), Galleries)

    async def refresh_galleries(self) -> GalleryRefreshOut:
        """Request a new download of the galleries. The response holds what is known now."""
        return await self._transport.fetch(
            ApiRequest(method="POST", path="/api/models/galleries/refresh"), GalleryRefreshOut
        )


class FleetCalls:
    """Client-side calls of the HTTP API that export and apply a cluster's configuration as one file."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def export(self) -> dict[str, Any]:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/fleet"), dict[str, Any])

    async def apply(self, fleet: Mapping[str, Any], *, plan: bool = False, prune: bool = False) -> FleetChangesOut:
        given = {"plan": plan, "prune": prune}
        parameters = {key: "true" for key, value in given.items() if value}
        call = ApiRequest(method="POST", path="/api/fleet", body=fleet, parameters=parameters)
        return await self._transport.fetch(call, FleetChangesOut)


class LoadCalls:
    """Client-side calls of the HTTP API about loads of models: plans and progress."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def plan_load(self, model: str, options: LoadIn | None = None) -> LoadPlanOut:
        """Return where a model would be placed now, and why not on the other nodes."""
        options = options or LoadIn()
        body = LoadPlanIn(model=model, count=options.count, nodes=options.nodes)
        return await self._transport.fetch(ApiRequest(method="POST", path="/api/plan", body=body), LoadPlanOut)


class RuleCalls:
    """Client-side calls of the HTTP API about models' placement and scaling rules."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self) -> list[RuleOut]:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/rules"), list[RuleOut])

    async def get(self, model: str) -> RuleOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_make_rule_path(model)), RuleOut)

    async def put(self, model: str, rule: Mapping[str, Any]) -> RuleOut:
        """Replace a model's rule."""
        return await self._transport.fetch(ApiRequest(method="PUT", path=_make_rule_path(model), body=rule), RuleOut)

    async def remove(self, model: str) -> RuleOut:
        """Remove a model's rule and return it."""
        return await self._transport.fetch(ApiRequest(method="DELETE", path=_make_rule_path(model)), RuleOut)


def _make_rule_path(model: str) -> str:
    return f"/api/rules/{quote(model, safe='')}"
