"""`/api/secrets`: secrets of the caller, and those that admins keep for the cluster. Values are never returned."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query

from corral.access.directory import require_scope
from corral.api.deps import AnyCallerIn, DepsIn
from corral.domain.access import CLUSTER, Owner, Principal, Scope
from corral.domain.errors import NotAllowed
from corral.domain.secret import SecretScope, SecretValue, StoredSecret
from corral.policy.secret_references import SecretReference
from corral.wire.secrets import SecretIn, SecretOut

router = APIRouter(prefix="/api/secrets", tags=["access"])
NameIn = Annotated[str, Path(description="Letters, digits, dots, dashes and underscores, 100 at most.")]
ScopeIn = Annotated[SecretScope, Query(description="own: of the caller's user or key; cluster: of the whole cluster.")]


@router.get("")
async def list_secrets(deps: DepsIn, principal: AnyCallerIn, scope: ScopeIn = SecretScope.OWN) -> list[SecretOut]:
    """List the names of the caller's secrets, and when each was set and used. Values are never returned.

    Secrets belong to the caller's user, or to the key if it has no user. Those of the cluster are listed for operators.
    """
    owner = _find_owner(principal, scope, Scope.OPERATE)
    return [_to_wire(secret, scope) for secret in await deps.secret_store.list(owner)]


@router.put("/{name}")
async def put_secret(
    deps: DepsIn, principal: AnyCallerIn, name: NameIn, body: SecretIn, scope: ScopeIn = SecretScope.OWN
) -> SecretOut:
    """Store a value under a name, and replace the previous one. Those of the cluster are set by admins.

    503 `no_secrets_key` if this frontend has no key file, 409 `too_many_secrets` if there are 100 already.
    """
    owner = _find_owner(principal, scope, Scope.ADMIN)
    stored = await deps.secret_store.put(owner, name, SecretValue(body.value), principal.name)
    return _to_wire(stored, scope)


@router.delete("/{name}", status_code=204)
async def delete_secret(deps: DepsIn, principal: AnyCallerIn, name: NameIn, scope: ScopeIn = SecretScope.OWN) -> None:
    """Delete a secret. What refers to it fails from now on. Those of the cluster are deleted by admins."""
    await deps.secret_store.delete(_find_owner(principal, scope, Scope.ADMIN), name, principal.name)


def _find_owner(principal: Principal, scope: SecretScope, cluster_scope: Scope) -> Owner:
    """Return whose secrets the caller means; raise `NotAllowed` if those of the cluster require `cluster_scope`."""
    if principal.node_id is not None:
        raise NotAllowed(
            f"{principal.name} is a key of an agent node, and nodes own no secrets.",
            hint="Use the key of a person or a program.",
        )
    if scope is SecretScope.OWN:
        return principal.owner
    require_scope(principal, cluster_scope)
    return CLUSTER


def _to_wire(secret: StoredSecret, scope: SecretScope) -> SecretOut:
    return SecretOut(**asdict(secret), reference=str(SecretReference(name=secret.name, scope=scope)))
