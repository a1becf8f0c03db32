"""The API of container registries, as much of it as fetching needs.

Guarantee: what a tag means is settled once, before anything is fetched; everything after that goes by digest and is
verified against it. Credentials are sent to the host that they are for, and never without encryption except to this
machine itself or where the reference says so.
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

from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.http import Http, refused, shown

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    host: str
    repository: str
    tag: str = ""
    digest: str = ""
    is_plain: bool = False

    @property
    def base(self) -> str:
        return f"{'http' if self.is_plain else 'https'}://{self.host}/v2/{self.repository}"

    def at(self, digest: str) -> str:
        """The exact address of what a digest names here."""
        return f"{'oci+http' if self.is_plain else 'oci'}://{self.host}/{self.repository}@{digest}"


def parse_reference(uri: str) -> Reference:
    found = _REFERENCE.fullmatch(uri)
    host = found["host"] if found else ""
    if found is None or not ("." in host or ":" in host or host == "localhost"):
        raise TransferFailed(
            f"{shown(uri) if '://' in uri else uri!r} is not host/repository:tag.",
            hint="A reference names its registry; none is assumed.",
            code="bad_manifest",
        )
    digest = found["digest"] or ""
    return Reference(
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


class Registry:
    """One repository of one registry."""

    def __init__(self, http: Http, reference: Reference, credentials: Mapping[str, str]) -> None:
        self._http = http
        self._reference = reference
        self._credential = credentials.get(reference.host.lower(), "")
        self._authorization = ""

    @property
    def headers(self) -> dict[str, str]:
        """What the last answer asked for."""
        return {"Authorization": self._authorization} if self._authorization else {}

    def blob_url(self, digest: str) -> str:
        return f"{self._reference.base}/blobs/{digest}"

    async def manifest(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """The digest of a manifest, and the manifest; `name` is a tag or a digest."""
        url = f"{self._reference.base}/manifests/{name}"
        headers = {"Accept": ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))}
        for attempt in range(2):
            async with self._http.ask(url, headers=headers | self.headers) as response:
                if response.status == HTTPStatus.UNAUTHORIZED and not attempt:
                    challenge = response.headers.get("WWW-Authenticate", "")
                else:
                    if response.status != HTTPStatus.OK:
                        raise refused(url, response.status)
                    body = await self._http.read(url, response, MANIFEST_BYTES_MAX)
                    return self._verified(url, name, body, response.headers.get("Content-Type", ""))
            await self.authorize(challenge)
        raise AssertionError("the second attempt returns or raises")

    def _verified(self, url: str, name: str, body: bytes, content_type: str) -> tuple[str, Mapping[str, Any]]:
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if name.startswith("sha256:") and name != digest:
            raise TransferFailed(f"{shown(url)} is {digest} instead.", code="digest_mismatch")
        try:
            document = json.loads(body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise SourceFailed(f"{shown(url)} answers with something that is not a manifest.", code="bad_answer")
        document.setdefault("mediaType", content_type.partition(";")[0].strip())
        return digest, document

    async def authorize(self, challenge: str) -> None:
        """Do what a 401 asks for: name and password, or a token from where it says."""
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
        asked = {key: values[key] for key in ("service", "scope") if values.get(key)}
        asked.setdefault("scope", f"repository:{self._reference.repository}:pull")
        self._authorization = f"Bearer {await self._token(f'{realm}?{urlencode(asked)}', basic)}"

    async def _token(self, url: str, basic: str) -> str:
        async with self._http.ask(url, headers={"Authorization": basic} if basic else {}) as response:
            if response.status != HTTPStatus.OK:
                raise refused(url, response.status)
            body = await self._http.read(url, response, _TOKEN_BYTES_MAX)
        try:
            document = json.loads(body)
            token = document.get("token") or document.get("access_token")
        except (ValueError, AttributeError):
            token = None
        if not isinstance(token, str):
            raise SourceFailed(f"{shown(url)} answers without a token.", code="bad_answer")
        return token

    async def renew(self, digest: str) -> bool:
        """Ask for a fresh token for a blob: those of registries last minutes, downloads may take hours.

        False if there is no other than the one that was refused.
        """
        before, self._authorization = self._authorization, ""
        url = self.blob_url(digest)
        async with self._http.ask(url, method="HEAD") as response:
            if response.status != HTTPStatus.UNAUTHORIZED:
                return True
            challenge = response.headers.get("WWW-Authenticate", "")
        await self.authorize(challenge)
        return bool(self._authorization) and self._authorization != before
