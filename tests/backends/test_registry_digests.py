"""Asking registries for digests, and what follows from the answers: a real server and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256

import pytest
from aiohttp import web
from sqlalchemy import text

from corral.adapters.http import HttpFetcher
from corral.backends.catalog import BackendCatalog
from corral.backends.upgrades import (
    COOLDOWN_S,
    EVERY_S,
    UpgradeChecker,
    UpgradeCheckResult,
    fetch_digest,
)
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Conflict, Unavailable
from corral.domain.node import NodeId
from corral.store import assignments as assignment_store
from corral.store.database import Database
from tests.backends.entries import parsed
from tests.backends.sites import HandClock, Site, fetcher, site
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node

OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MANIFESTS = "/v2/team/brains/manifests/cpu"


@dataclass
class Registry:
    """A repository team/brains with one tag, cpu."""

    place: Site
    digest: str = NEW
    wants_token: bool = False
    knows_head: bool = True
    token: str = "let-me-in"
    seen: list[str] = field(default_factory=list)

    @property
    def image(self) -> str:
        return self.place.url.removeprefix("http://") + "/team/brains:cpu"

    async def manifest(self, request: web.Request) -> web.Response:
        self.seen.append(request.method)
        if self.wants_token and request.headers.get("Authorization") != f"Bearer {self.token}":
            challenge = f'Bearer realm="{self.place.url}/token",service="reg",scope="repository:team/brains:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if not self.knows_head:
            return web.Response(status=405 if request.method == "HEAD" else 200, body=b"{}")
        return web.Response(headers={"Docker-Content-Digest": self.digest})

    async def give_token(self, request: web.Request) -> web.Response:
        self.seen.append(f"token {request.query['service']} {request.query['scope']}")
        return web.json_response({"token": self.token})


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with site() as place:
        made = Registry(place)
        place.answers |= {MANIFESTS: made.manifest, "/token": made.give_token}
        yield made


@pytest.fixture
async def http() -> AsyncIterator[HttpFetcher]:
    async with fetcher() as made:
        yield made


async def test_registry_tells_the_digest_of_a_tag(registry: Registry, http: HttpFetcher) -> None:
    assert await fetch_digest(registry.image, http) == NEW
    assert await fetch_digest(f"oci+http://{registry.image}", http) == NEW
    assert registry.seen == ["HEAD", "HEAD"]
    assert "image.index" in registry.place.requests[0].headers["Accept"]


async def test_token_is_fetched_where_the_registry_wants_one(registry: Registry, http: HttpFetcher) -> None:
    registry.wants_token = True
    assert await fetch_digest(registry.image, http) == NEW
    assert registry.seen == ["HEAD", "token reg repository:team/brains:pull", "HEAD"]


async def test_digest_lookup_gets_the_manifest_when_the_registry_does_not_support_head(
    registry: Registry, http: HttpFetcher
) -> None:
    registry.knows_head = False
    assert await fetch_digest(registry.image, http) == f"sha256:{sha256(b'{}').hexdigest()}"
    assert registry.seen == ["HEAD", "GET"]


async def test_pinned_reference_is_its_own_answer(registry: Registry, http: HttpFetcher) -> None:
    assert await fetch_digest(f"{registry.image}@{OLD}", http) == OLD
    assert registry.seen == []


@pytest.mark.parametrize("trouble", ["away", "unknown", "no token", "password", "bad token", "no image"])
async def test_registry_that_cannot_tell_is_unavailable(registry: Registry, http: HttpFetcher, trouble: str) -> None:
    image = registry.image
    registry.wants_token = trouble in ("no token", "bad token")
    if trouble == "away":
        image = "127.0.0.1:1/team/brains:cpu"
    elif trouble == "unknown":
        image = image.replace(":cpu", ":gpu")
    elif trouble == "no token":
        registry.place.text("/token", "<html>")
    elif trouble == "bad token":
        registry.token = "a\r\nX-Evil: 1"
    elif trouble == "password":
        registry.place.text(MANIFESTS, "", status=401, WWW_Authenticate='Basic realm="x"')
    else:
        image = "not an image"
    with pytest.raises(Unavailable) as caught:
        await fetch_digest(image, http)
    assert caught.value.slug == "source_unavailable"
    if "token" in trouble:
        assert "gave no token" in caught.value.message


@dataclass
class RegistryScene:
    database: Database
    registry: Registry
    http: HttpFetcher
    clock: HandClock
    node_id: NodeId
    requested: list[str] = field(default_factory=list)
    refuses: bool = False

    async def request(self, name: str) -> None:
        self.requested.append(name)
        if self.refuses:
            raise Conflict("Not now.")

    def check(self, *, is_automatic: bool = False) -> UpgradeChecker:
        index = parsed(f"- {{name: cpu-brain, uri: '{self.registry.image}'}}")
        catalog = BackendCatalog(self.database, built_in=index)
        request = self.request if is_automatic else None
        return UpgradeChecker(self.database, catalog, self.http, self.clock, request_upgrade=request)

    async def report(self, digest: str) -> None:
        async with self.database.transaction() as tx:
            installed = InstalledBackend(name="cpu-brain", gallery="corral", digest=digest)
            await assignment_store.replace_installed_many(tx, {self.node_id: [installed]})

    async def age(self, seconds: float) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(
                text("UPDATE gallery_digests SET checked_at = checked_at - make_interval(secs => :s)"), {"s": seconds}
            )


@pytest.fixture
async def bench(frontend: RunningFrontend, registry: Registry, http: HttpFetcher) -> RegistryScene:
    node = await join_node(frontend, "attic")
    made = RegistryScene(frontend.database, registry, http, HandClock(), NodeId(node.id))
    await made.report(OLD)
    return made


@pytest.mark.behaviour("OPS-98")
async def test_moved_tag_becomes_an_upgrade_that_every_frontend_sees(bench: RegistryScene) -> None:
    assert await bench.check().find() == ()
    assert await bench.check().tick() == UpgradeCheckResult(queried=1)
    (found,) = await bench.check().find()
    assert (found.backend, found.installed_digest, found.available_digest) == ("cpu-brain", OLD, NEW)
    await bench.report(NEW)
    assert await bench.check().find() == ()


async def test_tag_is_looked_up_every_six_hours_whichever_frontend_leads(bench: RegistryScene) -> None:
    assert (await bench.check().tick()).queried == 1
    assert (await bench.check().tick()).queried == 0
    await bench.age(EVERY_S - 60)
    assert (await bench.check().tick()).queried == 0
    await bench.age(120)
    bench.registry.digest = OLD
    assert (await bench.check().tick()).queried == 1
    assert await bench.check().find() == ()


async def test_check_on_demand_queries_the_registry_at_once(bench: RegistryScene) -> None:
    await bench.check().tick()
    bench.registry.digest = OLD
    assert await bench.check().check() == ()
    assert len(bench.registry.seen) == 2


async def test_registry_that_is_away_keeps_the_last_digest_and_is_left_alone_for_a_while(
    bench: RegistryScene,
) -> None:
    await bench.check().tick()
    await bench.age(EVERY_S + 1)
    bench.registry.place.text(MANIFESTS, "", status=500)
    check = bench.check()
    assert await check.tick() == UpgradeCheckResult(queried=1, failed=1)
    assert await check.tick() == UpgradeCheckResult()
    assert [one.available_digest for one in await check.find()] == [NEW]
    bench.clock.now_s += COOLDOWN_S + 1
    assert (await check.tick()).queried == 1


async def test_upgrades_are_only_shown_unless_they_are_automatic(bench: RegistryScene) -> None:
    assert (await bench.check().tick()).requested == ()
    assert bench.requested == []


async def test_automatic_upgrade_is_requested_once_and_again_after_the_check_interval(bench: RegistryScene) -> None:
    check = bench.check(is_automatic=True)
    assert (await check.tick()).requested == ("cpu-brain",)
    assert (await check.tick()).requested == ()
    bench.clock.now_s += EVERY_S + 1
    assert (await check.tick()).requested == ("cpu-brain",)
    await bench.report(NEW)
    bench.clock.now_s += EVERY_S + 1
    assert (await check.tick()).requested == ()
    assert bench.requested == ["cpu-brain", "cpu-brain"]


async def test_automatic_upgrade_that_is_refused_does_not_spin(bench: RegistryScene) -> None:
    bench.refuses = True
    check = bench.check(is_automatic=True)
    assert (await check.tick()).requested == ()
    assert (await check.tick()).requested == ()
    assert bench.requested == ["cpu-brain"]
