"""The API of container registries, as much of it as fetching needs, and the download of a manifest's blobs.

Guarantee: a tag is resolved once, before anything is fetched; everything after that goes by digest and is verified
against it. Credentials are sent to the host that they are for, and never without encryption except to this machine
itself or where the reference says so.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

from corral.ports.files import ProgressCallback
from corral.transfer.downloader import DownloadedFile, Downloader, DownloadRequest
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.http_client import TransferHttpClient, make_refusal, redact_url

MANIFEST_BYTES_MAX = 4 * 1024 * 1024
_TOKEN_BYTES_MAX = 256 * 1024
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_REFERENCE = re.compile(
    r"(?:(?P<scheme>oci|oci\+http)://)?(?P<host>[^/@]+)/(?P<repository>[a-z0-9][a-z0-9._/-]*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_LAYERS_MAX = 500
_RENEWALS_MAX = 20
_TITLE = "org.opencontainers.image.title"


@dataclass(frozen=True, slots=True, kw_only=True)
class OciReference:
    """Names an image or artifact in a container registry: host, repository, and a tag or digest."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""
    is_plain: bool = False

    @property
    def base_url(self) -> str:
        return f"{'http' if self.is_plain else 'https'}://{self.host}/v2/{self.repository}"

    def format_digest_uri(self, digest: str) -> str:
        """Return the exact address of the content that a digest names here."""
        return f"{'oci+http' if self.is_plain else 'oci'}://{self.host}/{self.repository}@{digest}"


def parse_reference(uri: str) -> OciReference:
    found = _REFERENCE.fullmatch(uri)
    host = found["host"] if found else ""
    if found is None or not ("." in host or ":" in host or host == "localhost"):
        raise TransferFailed(
            f"{redact_url(uri) if '://' in uri else uri!r} is not host/repository:tag.",
            hint="A reference names its registry; none is assumed.",
            code="bad_manifest",
        )
    digest = found["digest"] or ""
    return OciReference(
        host=host,
        repository=found["repository"],
        tag=found["tag"] or ("" if digest else "latest"),
        digest=digest,
        is_plain=found["scheme"] == "oci+http" or _is_this_machine(host),
    )


def _is_this_machine(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


class OciRepositoryClient:
    """HTTP client for one repository of a container registry: reads manifests and authorises downloads."""

    def __init__(self, http: TransferHttpClient, reference: OciReference, credentials: Mapping[str, str]) -> None:
        self._http = http
        self._reference = reference
        self._credential = credentials.get(reference.host.lower(), "")
        self._authorization = ""

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that the latest challenge of the registry requires."""
        return {"Authorization": self._authorization} if self._authorization else {}

    def make_blob_url(self, digest: str) -> str:
        return f"{self._reference.base_url}/blobs/{digest}"

    async def fetch_manifest(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the digest of a manifest, and the manifest; `name` is a tag or a digest."""
        url = f"{self._reference.base_url}/manifests/{name}"
        headers = {"Accept": ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))}
        for attempt in range(2):
            async with self._http.request(url, headers=headers | self.headers) as response:
                if response.status == HTTPStatus.UNAUTHORIZED and not attempt:
                    challenge = response.headers.get("WWW-Authenticate", "")
                else:
                    if response.status != HTTPStatus.OK:
                        raise make_refusal(url, response.status)
                    body = await self._http.read_body(url, response, MANIFEST_BYTES_MAX)
                    return self._verify_manifest(url, name, body, response.headers.get("Content-Type", ""))
            await self.authorize(challenge)
        raise AssertionError("the second attempt returns or raises")

    def _verify_manifest(self, url: str, name: str, body: bytes, content_type: str) -> tuple[str, Mapping[str, Any]]:
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if name.startswith("sha256:") and name != digest:
            raise TransferFailed(f"{redact_url(url)} is {digest} instead.", code="digest_mismatch")
        try:
            document = json.loads(body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise SourceFailed(f"{redact_url(url)} returned something that is not a manifest.", code="bad_answer")
        document.setdefault("mediaType", content_type.partition(";")[0].strip())
        return digest, document

    async def authorize(self, challenge: str) -> None:
        """Do what a 401 requires: send name and password, or get a token from the named address."""
        scheme, _, rest = challenge.partition(" ")
        basic = f"Basic {base64.b64encode(self._credential.encode()).decode()}" if self._credential else ""
        if scheme.lower() == "basic":
            self._authorization = basic
            return
        values = dict(_CHALLENGE.findall(rest))
        realm = values.get("realm", "")
        parts = urlsplit(realm)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and self._reference.is_plain)
        if scheme.lower() != "bearer" or not is_safe:
            raise TransferFailed(
                f"{self._reference.host} asks for a credential in a way that Corral does not know.",
                code="unsupported",
            )
        query = {key: values[key] for key in ("service", "scope") if values.get(key)}
        query.setdefault("scope", f"repository:{self._reference.repository}:pull")
        self._authorization = f"Bearer {await self._fetch_token(f'{realm}?{urlencode(query)}', basic)}"

    async def _fetch_token(self, url: str, basic: str) -> str:
        async with self._http.request(url, headers={"Authorization": basic} if basic else {}) as response:
            if response.status != HTTPStatus.OK:
                raise make_refusal(url, response.status)
            body = await self._http.read_body(url, response, _TOKEN_BYTES_MAX)
        try:
            document = json.loads(body)
            token = document.get("token") or document.get("access_token")
        except (ValueError, AttributeError):
            token = None
        if not isinstance(token, str):
            raise SourceFailed(f"{redact_url(url)} returned no token.", code="bad_answer")
        return token

    async def renew_token(self, digest: str) -> bool:
        """Get a fresh token for a blob: those of registries last minutes, downloads may take hours.

        False if there is no other than the one that was refused.
        """
        previous, self._authorization = self._authorization, ""
        url = self.make_blob_url(digest)
        async with self._http.request(url, method="HEAD") as response:
            if response.status != HTTPStatus.UNAUTHORIZED:
                return True
            challenge = response.headers.get("WWW-Authenticate", "")
        await self.authorize(challenge)
        return bool(self._authorization) and self._authorization != previous


@dataclass(frozen=True, slots=True, kw_only=True)
class OciLayer:
    """One blob in the manifest of a container registry's artifact: its digest, size, type and title."""

    digest: str
    size_bytes: int
    media_type: str = ""
    title: str = ""

    @property
    def is_tar(self) -> bool:
        return ".tar" in self.media_type or self.media_type.endswith("+tar")

    @property
    def file_name(self) -> str:
        return self.title or self.digest.removeprefix("sha256:")[:12]


def parse_layers(document: Mapping[str, Any]) -> tuple[OciLayer, ...]:
    try:
        found = tuple(
            OciLayer(
                digest=str(layer["digest"]),
                size_bytes=int(layer["size"]),
                media_type=str(layer.get("mediaType", "")),
                title=str((layer.get("annotations") or {}).get(_TITLE, "")),
            )
            for layer in document["layers"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TransferFailed("The manifest is invalid.", code="bad_package") from error
    if not found or len(found) > _LAYERS_MAX:
        raise TransferFailed(f"The manifest has {len(found)} layers.", code="bad_package")
    if any(not layer.digest.startswith("sha256:") for layer in found):
        raise TransferFailed("A layer has a digest that is not sha256.", code="unsupported")
    return found


def make_layer_request(registry: OciRepositoryClient, layer: OciLayer) -> DownloadRequest:
    return DownloadRequest(
        url=registry.make_blob_url(layer.digest),
        file_name=layer.file_name,
        sha256=layer.digest.removeprefix("sha256:"),
        size_bytes=layer.size_bytes,
        is_size_promised=True,
        headers=registry.headers,
    )


async def fetch_layer(
    downloader: Downloader, registry: OciRepositoryClient, layer: OciLayer, on_progress: ProgressCallback
) -> DownloadedFile:
    for _ in range(_RENEWALS_MAX):
        try:
            return await downloader.fetch(make_layer_request(registry, layer), on_progress)
        except TransferFailed as error:
            if error.details.get("status") != HTTPStatus.UNAUTHORIZED or not await registry.renew_token(layer.digest):
                raise
    raise SourceFailed(f"{registry.make_blob_url(layer.digest)} goes on asking for a token.", code="source_unavailable")
