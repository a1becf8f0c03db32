"""What a tag of a registry points to: one HEAD, with a token where the registry wants one.

The digest is the one that the tag itself has (of the index, when there is an image for each platform), which is also
what a worker records. Plain HTTP is used for this machine's own registries and where the reference says oci+http.
Limit: tokens are asked for without a password, so a private repository cannot be looked at.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from urllib.parse import quote, urlencode

from corral.backends.sources import image_of, is_plain_http
from corral.domain.errors import Unavailable
from corral.ports.fetch import Fetched, Fetcher, Wanted

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


def pinned_digest(uri: str) -> str:
    """The digest that a reference itself names, else nothing."""
    image = image_of(uri)
    return (image["digest"] or "") if image is not None else ""


async def digest_of(uri: str, fetcher: Fetcher) -> str:
    """The digest behind a reference; `Unavailable` with the code `source_unavailable` if nobody can tell."""
    image = image_of(uri)
    if image is None:
        raise Unavailable(f"{uri[:200]!r} is not an image of a registry.", code="source_unavailable")
    if image["digest"]:
        return str(image["digest"])
    registry, repository = image["registry"], image["repository"]
    scheme = "http" if is_plain_http(uri) or _LOCAL.fullmatch(registry) else "https"
    url = f"{scheme}://{registry}/v2/{repository}/manifests/{quote(image['tag'] or 'latest', safe='')}"
    asking = _Asking(fetcher=fetcher, repository=repository)
    answer = await asking.ask(url, "HEAD")
    digest = _told(answer)
    if digest:
        return digest
    # An old registry, or one that does not know HEAD: the digest is that of the document.
    answer = await asking.ask(url, "GET")
    if answer.status != 200:
        raise Unavailable(f"{registry} answered {answer.status} for {repository}.", code="source_unavailable")
    return _told(answer) or f"sha256:{sha256(answer.body).hexdigest()}"


class _Asking:
    """Requests about one repository: the token that the first one was told to get serves the next."""

    def __init__(self, *, fetcher: Fetcher, repository: str) -> None:
        self._fetcher = fetcher
        self._repository = repository
        self._token = ""

    async def ask(self, url: str, method: str) -> Fetched:
        answer = await self._send(url, method)
        if answer.status == 401 and not self._token:
            self._token = await self._get_token(answer.headers.get("www-authenticate", ""))
            answer = await self._send(url, method)
        return answer

    async def _send(self, url: str, method: str) -> Fetched:
        headers = {"Accept": _ACCEPT} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        wanted = Wanted(url=url, method=method, headers=headers, limit_bytes=MANIFEST_LIMIT_BYTES, timeout_s=TIMEOUT_S)
        return await self._fetcher.fetch(wanted)

    async def _get_token(self, challenge: str) -> str:
        scheme, _, rest = challenge.partition(" ")
        told = dict(_PARAMETER.findall(rest))
        if scheme.lower() != "bearer" or not told.get("realm", "").startswith(("http://", "https://")):
            raise Unavailable(f"{self._repository} needs a password.", code="source_unavailable")
        query = {"scope": told.get("scope") or f"repository:{self._repository}:pull"}
        if told.get("service"):
            query["service"] = told["service"]
        joint = "&" if "?" in told["realm"] else "?"
        url = f"{told['realm']}{joint}{urlencode(query)}"
        answer = await self._fetcher.fetch(Wanted(url=url, limit_bytes=TOKEN_LIMIT_BYTES, timeout_s=TIMEOUT_S))
        try:
            value = json.loads(answer.body) if answer.status == 200 else {}
        except ValueError:
            value = {}
        token = (value.get("token") or value.get("access_token")) if isinstance(value, dict) else None
        # A header with a line break in it would be two.
        if not isinstance(token, str) or not token.isprintable():
            raise Unavailable(f"The registry of {self._repository} gave no token.", code="source_unavailable")
        return token


def _told(answer: Fetched) -> str:
    digest = answer.headers.get("docker-content-digest", "")
    return digest if answer.status == 200 and _DIGEST.fullmatch(digest) else ""
