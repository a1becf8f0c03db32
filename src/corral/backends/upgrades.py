"""Finds upgrades: queries registries where the tags of installed images point to now, then compares.

The leader looks every few seconds, and queries each tag at most every six hours; the time of the last query is in
PostgreSQL, so a new leader continues where the old one was. `find` is cheap, waits for no registry, and returns the
same on every frontend. With automatic upgrades each upgrade that is found is requested once, and again after six
hours if it is still there; the operation that follows is an ordinary one.

What a tag points to is read by one HEAD, with a token where the registry requires one. The digest is the one that the
tag itself has (of the index, when there is an image for each platform), which is also what a worker records. Plain HTTP
is used for this machine's own registries and where the reference says oci+http. Limit: tokens are requested without a
password, so private repositories are not supported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from urllib.parse import quote, urlencode

import structlog

from corral.backends.catalog import BackendCatalog
from corral.backends.refresh import gather_limited
from corral.backends.sources import is_plain_http, parse_image
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Unavailable
from corral.domain.node import NodeId
from corral.policy.upgrades import BackendUpgrade, NodeBackend, find_upgrades, list_tags_in_use
from corral.ports.files import Fetcher, FetchRequest, FetchResponse
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import assignments as assignment_store
from corral.store import galleries as store
from corral.store import nodes as node_store
from corral.store.database import Database

log = structlog.get_logger(__name__)

LOOK_INTERVAL_S = 30.0
EVERY_S = 6 * 3600.0
COOLDOWN_S = 600.0
DIGESTS_KEPT_S = 30 * 24 * 3600.0
# Limits one pass, so that it stays short; the rest is for the next one.
TAGS_PER_PASS = 100
AT_ONCE = 4

RequestUpgrade = Callable[[str], Awaitable[object]]
TIMEOUT_S = 30.0
MANIFEST_LIMIT_BYTES = 4 * 1024 * 1024
TOKEN_LIMIT_BYTES = 64 * 1024
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_PARAMETER = re.compile(r'([a-z]+)="([^"]*)"')
_ACCEPT = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_LOCAL = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeCheckResult:
    """Says what one search for backend upgrades did: tags queried, failures, upgrades requested."""

    queried: int = 0
    failed: int = 0
    requested: tuple[str, ...] = ()


class UpgradeChecker:
    """Finds upgrades of installed backends, and requests the automatic ones. `tick` runs on the leading frontend."""

    def __init__(
        self,
        database: Database,
        catalog: BackendCatalog,
        fetcher: Fetcher,
        clock: Clock,
        *,
        request_upgrade: RequestUpgrade | None = None,
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._fetcher = fetcher
        self._clock = clock
        # None: upgrades are shown and left to an admin.
        self._request_upgrade = request_upgrade
        # Tags whose query failed, and upgrades that were requested: until when they are left alone.
        self._cooling_down: dict[str, float] = {}
        self._requested_until: dict[BackendUpgrade, float] = {}

    async def tick(self) -> UpgradeCheckResult:
        queried, failed = await self._query_registries(EVERY_S)
        return UpgradeCheckResult(queried=queried, failed=failed, requested=await self._request_upgrades())

    async def check(self) -> tuple[BackendUpgrade, ...]:
        """Query every registry now, then return the upgrades."""
        self._cooling_down.clear()
        await self._query_registries(0.0)
        return await self.find()

    async def find(self) -> tuple[BackendUpgrade, ...]:
        """Return the upgrades from what is known now, without a query to any registry."""
        async with self._database.transaction() as tx:
            installed = await assignment_store.list_installed(tx)
            nodes = await node_store.list_nodes(tx, only=list(installed))
            digests = await store.list_digests(tx)
        rows = _make_rows(installed, {node.id: node.name for node in nodes})
        return find_upgrades(rows, self._catalog.list_entries(), digests)

    async def _query_registries(self, every_s: float) -> tuple[int, int]:
        """Query the due tags; return how many were queried, and how many queries failed."""
        async with self._database.transaction() as tx:
            installed = await assignment_store.list_installed(tx)
        tags = list_tags_in_use(_make_rows(installed, {}), self._catalog.list_entries())
        if not tags:
            return 0, 0
        async with self._database.transaction() as tx:
            fresh = await store.list_fresh_digests(tx, tags, every_s)
        now = self._clock.monotonic()
        self._cooling_down = {uri: until for uri, until in self._cooling_down.items() if until > now}
        due = [uri for uri in tags if uri not in fresh and uri not in self._cooling_down][:TAGS_PER_PASS]
        if not due:
            return 0, 0
        digests = dict(await gather_limited([partial(self._query_tag, uri) for uri in due], AT_ONCE))
        found = {uri: digest for uri, digest in digests.items() if digest}
        async with self._database.transaction() as tx:
            await store.put_digests(tx, found)
            await store.prune_digests(tx, DIGESTS_KEPT_S)
        return len(due), len(due) - len(found)

    async def _query_tag(self, uri: str) -> tuple[str, str]:
        try:
            return uri, await fetch_digest(uri, self._fetcher)
        except Unavailable as error:
            self._cooling_down[uri] = self._clock.monotonic() + COOLDOWN_S
            log.warning("could not query the registry", image=uri, problem=error.message)
            return uri, ""

    async def _request_upgrades(self) -> tuple[str, ...]:
        request = self._request_upgrade
        if request is None:
            return ()
        now = self._clock.monotonic()
        self._requested_until = {found: until for found, until in self._requested_until.items() if until > now}
        names = []
        for found in await self.find():
            if found in self._requested_until:
                continue
            self._requested_until[found] = now + EVERY_S
            outcome = await attempt(partial(request, found.backend))
            if isinstance(outcome, AttemptFailure):
                log.warning("the upgrade was not admitted", backend=found.backend, problem=outcome.sentence)
            else:
                names.append(found.backend)
        return tuple(names)


def _make_rows(
    installed: Mapping[NodeId, tuple[InstalledBackend, ...]], names: Mapping[NodeId, str]
) -> list[NodeBackend]:
    return [
        NodeBackend(node_id=node_id, node_name=names.get(node_id, node_id), installed=item)
        for node_id, items in installed.items()
        for item in items
    ]


async def fetch_digest(uri: str, fetcher: Fetcher) -> str:
    """Return the digest behind a reference; raises `Unavailable` with the code `source_unavailable` if no source
    answers."""
    image = parse_image(uri)
    if image is None:
        raise Unavailable(f"{uri[:200]!r} is not an image of a registry.", code="source_unavailable")
    if image["digest"]:
        return str(image["digest"])
    registry, repository = image["registry"], image["repository"]
    scheme = "http" if is_plain_http(uri) or _LOCAL.fullmatch(registry) else "https"
    url = f"{scheme}://{registry}/v2/{repository}/manifests/{quote(image['tag'] or 'latest', safe='')}"
    client = _RegistryClient(fetcher=fetcher, repository=repository)
    answer = await client.request(url, "HEAD")
    digest = _describe_answer(answer)
    if digest:
        return digest
    # An old registry, or one without HEAD: the digest is that of the document.
    answer = await client.request(url, "GET")
    if answer.status != 200:
        raise Unavailable(f"{registry} returned {answer.status} for {repository}.", code="source_unavailable")
    return _describe_answer(answer) or f"sha256:{sha256(answer.body).hexdigest()}"


class _RegistryClient:
    """Sends requests about one repository to its registry, and reuses the token of the first."""

    def __init__(self, *, fetcher: Fetcher, repository: str) -> None:
        self._fetcher = fetcher
        self._repository = repository
        self._token = ""

    async def request(self, url: str, method: str) -> FetchResponse:
        answer = await self._send(url, method)
        if answer.status == 401 and not self._token:
            self._token = await self._get_token(answer.headers.get("www-authenticate", ""))
            answer = await self._send(url, method)
        return answer

    async def _send(self, url: str, method: str) -> FetchResponse:
        headers = {"Accept": _ACCEPT} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        request = FetchRequest(
            url=url, method=method, headers=headers, limit_bytes=MANIFEST_LIMIT_BYTES, timeout_s=TIMEOUT_S
        )
        return await self._fetcher.fetch(request)

    async def _get_token(self, challenge: str) -> str:
        scheme, _, rest = challenge.partition(" ")
        parameters = dict(_PARAMETER.findall(rest))
        if scheme.lower() != "bearer" or not parameters.get("realm", "").startswith(("http://", "https://")):
            raise Unavailable(f"{self._repository} needs a password.", code="source_unavailable")
        query = {"scope": parameters.get("scope") or f"repository:{self._repository}:pull"}
        if parameters.get("service"):
            query["service"] = parameters["service"]
        joint = "&" if "?" in parameters["realm"] else "?"
        url = f"{parameters['realm']}{joint}{urlencode(query)}"
        answer = await self._fetcher.fetch(FetchRequest(url=url, limit_bytes=TOKEN_LIMIT_BYTES, timeout_s=TIMEOUT_S))
        try:
            value = json.loads(answer.body) if answer.status == 200 else {}
        except ValueError:
            value = {}
        token = (value.get("token") or value.get("access_token")) if isinstance(value, dict) else None
        # A header with a line break in it would become two.
        if not isinstance(token, str) or not token.isprintable():
            raise Unavailable(f"The registry of {self._repository} gave no token.", code="source_unavailable")
        return token


def _describe_answer(answer: FetchResponse) -> str:
    digest = answer.headers.get("docker-content-digest", "")
    return digest if answer.status == 200 and _DIGEST.fullmatch(digest) else ""
