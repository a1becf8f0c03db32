"""Coming in by a provider of identities: OpenID Connect, authorization code with PKCE.

What a browser brings back is believed only if it belongs to the login that this browser began (`state`), to this login
alone (`nonce`), and is signed by a key that the provider publishes, for us and not for somebody else. The provider is
found by its discovery document. What it published is kept for an hour; a key that is not among it is looked for again,
at most once a minute.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from corral.domain.access import Scope
from corral.domain.errors import NotAllowed, NotAuthenticated, Unavailable
from corral.ports.fetch import Fetcher, Wanted
from corral.ports.runtime import Clock, Ids

KEPT_S = 3600.0
KEYS_AGAIN_S = 60.0
TIMEOUT_S = 15.0
DOCUMENT_BYTES_MAX = 256 * 1024
# Clocks differ; more than a minute is somebody's mistake.
LEEWAY_S = 60
# Signatures by a key that only the provider has. Those by a shared secret, and none at all, are not among them.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_CLAIMS = ("iss", "sub", "aud", "exp", "iat", "nonce")
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,254}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    issuer: str
    client_id: str
    # None: a public client, which PKCE alone protects.
    client_secret: str | None = field(default=None, repr=False)
    # Where a token says what its holder is; dots lead into it: `realm_access.roles`.
    scope_claim: str = "groups"
    # What of it gives which scope.
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    # For those to whom it gives none. None: they stay outside.
    default_scope: Scope | None = None
    # Beside `openid`.
    asks_for: str = "profile email"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a browser keeps until it comes back. Three secrets that belong to one login."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)

    def written(self) -> str:
        return f"{self.state}.{self.nonce}.{self.verifier}"

    @classmethod
    def read(cls, text: str) -> Begun | None:
        parts = text.split(".")
        return cls(state=parts[0], nonce=parts[1], verifier=parts[2]) if len(parts) == 3 and all(parts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whom the provider vouches for."""

    issuer: str
    subject: str
    name: str
    scope: Scope


@dataclass(slots=True)
class _Kept:
    until: float
    document: dict[str, Any]


class Oidc:
    def __init__(self, options: OidcOptions, fetcher: Fetcher, clock: Clock, ids: Ids) -> None:
        self.options = options
        self._fetcher = fetcher
        self._clock = clock
        self._ids = ids
        self._discovered: _Kept | None = None
        self._keys: _Kept | None = None

    async def begin(self, redirect_uri: str) -> tuple[str, Begun]:
        """Where to send a browser, and what it must bring back."""
        provider = await self._provider()
        begun = Begun(state=self._ids.secret(), nonce=self._ids.secret(), verifier=self._ids.secret())
        challenge = base64.urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": self.options.client_id,
            "redirect_uri": redirect_uri,
            "scope": f"openid {self.options.asks_for}".strip(),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        address = provider["authorization_endpoint"]
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}", begun

    async def finish(self, redirect_uri: str, code: str, state: str, begun: Begun | None) -> Identity:
        """Who has come back."""
        if begun is None or not hmac.compare_digest(state.encode(), begun.state.encode()):
            raise _refused("This login was not begun in this browser, or is over already.")
        claims = await self._verified(await self._exchange(redirect_uri, code, begun))
        if not hmac.compare_digest(str(claims["nonce"]).encode(), begun.nonce.encode()):
            raise _refused("The provider's token belongs to another login.")
        scope = self._scope_of(claims)
        if scope is None:
            raise NotAllowed(
                "The provider knows you, but nothing that it says of you lets you in here.",
                hint=f"An admin maps values of the claim {self.options.scope_claim} with the setting oidc_scopes.",
                code="oidc_no_scope",
            )
        return Identity(issuer=self.options.issuer, subject=claims["sub"], name=_name_of(claims), scope=scope)

    async def _exchange(self, redirect_uri: str, code: str, begun: Begun) -> str:
        """The token for a code, which the provider gives once."""
        provider, options = await self._provider(), self.options
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": options.client_id,
            "code_verifier": begun.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if options.client_secret is not None:
            ways = provider.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            if "client_secret_basic" in ways:
                pair = f"{quote(options.client_id, safe='')}:{quote(options.client_secret, safe='')}"
                headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            else:
                form["client_secret"] = options.client_secret
        wanted = Wanted(
            url=provider["token_endpoint"],
            method="POST",
            headers=headers,
            body=urlencode(form).encode(),
            limit_bytes=DOCUMENT_BYTES_MAX,
            timeout_s=TIMEOUT_S,
        )
        answer = await self._fetcher.fetch(wanted)
        token = _object(answer.body).get("id_token") if answer.status == 200 else None
        if not isinstance(token, str):
            raise _refused(f"The provider did not confirm this login (status {answer.status}).")
        return token

    async def _verified(self, token: str) -> dict[str, Any]:
        """The claims of a token that the provider has signed, for us, and that still holds."""
        import jwt  # noqa: PLC0415 - late: most clusters have no provider

        try:
            key = await self._key(jwt.get_unverified_header(token))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self.options.client_id,
                issuer=self.options.issuer,
                leeway=LEEWAY_S,
                options={"require": list(_CLAIMS)},
            )
        except jwt.PyJWTError as error:
            raise _refused(f"The provider's token does not hold: {type(error).__name__}.") from error
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", self.options.client_id if not several else None) != self.options.client_id:
            raise _refused("The provider's token was made for another program.")
        return claims

    async def _key(self, header: Mapping[str, Any]) -> Any:
        import jwt  # noqa: PLC0415 - as above

        name, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in ALGORITHMS:
            raise _refused("The provider's token is not signed in a way that is believed.")
        for again in (False, True):
            published = (await self._published(again=again)).get("keys", [])
            fitting = [one for one in published if _fits(one, name, len(published))]
            if fitting:
                return jwt.PyJWK.from_dict(fitting[0], algorithm=algorithm).key
        raise _refused("The provider's token is signed with a key that the provider does not publish.")

    async def _published(self, *, again: bool) -> dict[str, Any]:
        now = self._clock.monotonic()
        if self._keys is not None:
            read_at = self._keys.until - KEPT_S
            if now < (read_at + KEYS_AGAIN_S if again else self._keys.until):
                return self._keys.document
        document = await self._document((await self._provider())["jwks_uri"])
        self._keys = _Kept(now + KEPT_S, document)
        return document

    async def _provider(self) -> dict[str, Any]:
        now, issuer = self._clock.monotonic(), self.options.issuer
        if self._discovered is not None and now < self._discovered.until:
            return self._discovered.document
        document = await self._document(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        needed = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
        if not all(isinstance(document.get(name), str) for name in needed) or document["issuer"] != issuer:
            raise Unavailable(
                f"What is at {issuer} does not describe the provider {issuer}.",
                hint="oidc_issuer must be written exactly as the provider writes it, with or without the last slash.",
                code="oidc_unavailable",
            )
        self._discovered = _Kept(now + KEPT_S, document)
        return document

    async def _document(self, url: str) -> dict[str, Any]:
        answer = await self._fetcher.fetch(Wanted(url=url, limit_bytes=DOCUMENT_BYTES_MAX, timeout_s=TIMEOUT_S))
        if answer.status != 200:
            raise Unavailable(f"The provider of identities answered {answer.status}.", code="oidc_unavailable")
        return _object(answer.body)

    def _scope_of(self, claims: Mapping[str, Any]) -> Scope | None:
        """The widest of those that the claim gives."""
        said: Any = claims
        for name in self.options.scope_claim.split("."):
            said = said.get(name) if isinstance(said, Mapping) else None
        values = said if isinstance(said, list) else [said]
        given = {self.options.scopes.get(str(value)) for value in values}
        return next((scope for scope in Scope if scope in given), self.options.default_scope)


def _fits(key: object, name: object, count: int) -> bool:
    """By its name; without one there must be only one key."""
    if not isinstance(key, Mapping) or key.get("use", "sig") != "sig":
        return False
    return key.get("kid") == name if name is not None else count == 1


def _name_of(claims: Mapping[str, Any]) -> str:
    """What people call them, if it can be a name here; else one that is made of what never changes."""
    for claim in ("preferred_username", "email", "sub"):
        name = str(claims.get(claim) or "").lower()
        if _NAME.fullmatch(name):
            return name
    return f"oidc-{hashlib.sha256(str(claims['sub']).encode()).hexdigest()[:16]}"


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Unavailable(
            "The provider of identities answered with something that is not JSON.", code="oidc_unavailable"
        )
    return value


def _refused(sentence: str) -> NotAuthenticated:
    return NotAuthenticated(sentence, hint="Begin again at /api/session/oidc.", code="oidc_refused")
