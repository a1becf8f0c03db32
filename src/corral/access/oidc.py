"""Signs users in through an OpenID Connect provider: authorization code with PKCE.

A callback is accepted only if it belongs to the login that this browser began (`state`), if its token is for this login
(`nonce`) and this client (audience), and if it is signed by a key that the provider publishes. The provider is
configured by its discovery document. Its documents are cached for an hour; an unknown signing key makes them be fetched
again, at most once a minute.
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
from corral.ports.files import Fetcher, FetchRequest
from corral.ports.runtime import Clock, IdGenerator

CACHE_S = 3600.0
KEYS_REFRESH_MIN_S = 60.0
TIMEOUT_S = 15.0
DOCUMENT_BYTES_MAX = 256 * 1024
# Tolerated difference between clocks; more than a minute is a misconfiguration.
LEEWAY_S = 60
# Asymmetric signatures only: neither shared secrets nor unsigned tokens are accepted.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_CLAIMS = ("iss", "sub", "aud", "exp", "iat", "nonce")
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,254}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    """Settings of sign-in by OpenID Connect: the provider, this cluster's client id, and which claims give a scope."""

    issuer: str
    client_id: str
    # None: a public client, which PKCE alone protects.
    client_secret: str | None = field(default=None, repr=False)
    # The claim that holds the groups or roles of a user; dots lead into nested claims: `realm_access.roles`.
    scope_claim: str = "groups"
    # Maps values of this claim to scopes.
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    # Scope of users for whom the claim gives none. None: they may not sign in.
    default_scope: Scope | None = None
    # Requested in addition to `openid`.
    requested_scopes: str = "profile email"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLogin:
    """The three secrets of a sign-in that has begun at the OpenID Connect provider, kept in a browser cookie.

    The browser keeps them until it returns.
    """

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)

    def to_text(self) -> str:
        return f"{self.state}.{self.nonce}.{self.verifier}"

    @classmethod
    def from_text(cls, text: str) -> PendingLogin | None:
        parts = text.split(".")
        return cls(state=parts[0], nonce=parts[1], verifier=parts[2]) if len(parts) == 3 and all(parts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcIdentity:
    """Verified identity of a person from the OpenID Connect provider, with the scope that the person gets here."""

    issuer: str
    subject: str
    name: str
    scope: Scope


@dataclass(slots=True)
class _CachedDocument:
    """Caches a document of the provider until it has to be fetched again."""

    until: float
    document: dict[str, Any]


class OidcClient:
    """Signs people in at an OpenID Connect provider: builds the redirect, exchanges the code, verifies the token."""

    def __init__(self, options: OidcOptions, fetcher: Fetcher, clock: Clock, ids: IdGenerator) -> None:
        self.options = options
        self._fetcher = fetcher
        self._clock = clock
        self._ids = ids
        self._discovered: _CachedDocument | None = None
        self._keys: _CachedDocument | None = None

    async def begin_login(self, redirect_uri: str) -> tuple[str, PendingLogin]:
        """Return the address to redirect the browser to, and the secrets that it must bring back."""
        provider = await self._fetch_provider()
        pending = PendingLogin(
            state=self._ids.new_secret(), nonce=self._ids.new_secret(), verifier=self._ids.new_secret()
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(pending.verifier.encode()).digest()).rstrip(b"=")
        query = {
            "response_type": "code",
            "client_id": self.options.client_id,
            "redirect_uri": redirect_uri,
            "scope": f"openid {self.options.requested_scopes}".strip(),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        address = provider["authorization_endpoint"]
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", pending

    async def finish_login(
        self, redirect_uri: str, code: str, state: str, pending: PendingLogin | None
    ) -> OidcIdentity:
        """Return the verified identity of the user whom the provider has redirected back."""
        if pending is None or not hmac.compare_digest(state.encode(), pending.state.encode()):
            raise _make_refused_error("This login was not started in this browser, or has already ended.")
        claims = await self._verify_token(await self._exchange_code(redirect_uri, code, pending))
        if not hmac.compare_digest(str(claims["nonce"]).encode(), pending.nonce.encode()):
            raise _make_refused_error("The provider's token belongs to another login.")
        scope = self._find_scope(claims)
        if scope is None:
            raise NotAllowed(
                "You are signed in at the provider, but its claims give you no access here.",
                hint=f"An admin maps values of the claim {self.options.scope_claim} with the setting oidc_scopes.",
                code="oidc_no_scope",
            )
        return OidcIdentity(issuer=self.options.issuer, subject=claims["sub"], name=_pick_name(claims), scope=scope)

    async def _exchange_code(self, redirect_uri: str, code: str, pending: PendingLogin) -> str:
        """Exchange a code for a token. The provider accepts each code once."""
        provider, options = await self._fetch_provider(), self.options
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": options.client_id,
            "code_verifier": pending.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if options.client_secret is not None:
            ways = provider.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            if "client_secret_basic" in ways:
                pair = f"{quote(options.client_id, safe='')}:{quote(options.client_secret, safe='')}"
                headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            else:
                form["client_secret"] = options.client_secret
        request = FetchRequest(
            url=provider["token_endpoint"],
            method="POST",
            headers=headers,
            body=urlencode(form).encode(),
            limit_bytes=DOCUMENT_BYTES_MAX,
            timeout_s=TIMEOUT_S,
        )
        answer = await self._fetcher.fetch(request)
        token = _parse_object(answer.body).get("id_token") if answer.status == 200 else None
        if not isinstance(token, str):
            raise _make_refused_error(f"The provider did not confirm this login (status {answer.status}).")
        return token

    async def _verify_token(self, token: str) -> dict[str, Any]:
        """Return the claims of a token after checking its signature, audience and expiry."""
        import jwt  # noqa: PLC0415 - late: most clusters have no provider

        try:
            key = await self._find_signing_key(jwt.get_unverified_header(token))
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
            raise _make_refused_error(f"The provider's token is not valid: {type(error).__name__}.") from error
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", self.options.client_id if not several else None) != self.options.client_id:
            raise _make_refused_error("The provider's token was issued for another client.")
        return claims

    async def _find_signing_key(self, header: Mapping[str, Any]) -> Any:
        import jwt  # noqa: PLC0415 - as above

        name, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in ALGORITHMS:
            raise _make_refused_error("The signature algorithm of the provider's token is not accepted.")
        for again in (False, True):
            published = (await self._fetch_signing_keys(forces_refresh=again)).get("keys", [])
            fitting = [one for one in published if _is_matching_key(one, name, len(published))]
            if fitting:
                return jwt.PyJWK.from_dict(fitting[0], algorithm=algorithm).key
        raise _make_refused_error("The provider's token is signed with a key that the provider does not publish.")

    async def _fetch_signing_keys(self, *, forces_refresh: bool) -> dict[str, Any]:
        now = self._clock.monotonic()
        if self._keys is not None:
            read_at = self._keys.until - CACHE_S
            if now < (read_at + KEYS_REFRESH_MIN_S if forces_refresh else self._keys.until):
                return self._keys.document
        document = await self._fetch_document((await self._fetch_provider())["jwks_uri"])
        self._keys = _CachedDocument(now + CACHE_S, document)
        return document

    async def _fetch_provider(self) -> dict[str, Any]:
        now, issuer = self._clock.monotonic(), self.options.issuer
        if self._discovered is not None and now < self._discovered.until:
            return self._discovered.document
        document = await self._fetch_document(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        needed = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
        if not all(isinstance(document.get(name), str) for name in needed) or document["issuer"] != issuer:
            raise Unavailable(
                f"What is at {issuer} does not describe the provider {issuer}.",
                hint="oidc_issuer must be written exactly as the provider writes it, with or without the last slash.",
                code="oidc_unavailable",
            )
        self._discovered = _CachedDocument(now + CACHE_S, document)
        return document

    async def _fetch_document(self, url: str) -> dict[str, Any]:
        answer = await self._fetcher.fetch(FetchRequest(url=url, limit_bytes=DOCUMENT_BYTES_MAX, timeout_s=TIMEOUT_S))
        if answer.status != 200:
            raise Unavailable(
                f"The OpenID Connect provider responded with status {answer.status}.", code="oidc_unavailable"
            )
        return _parse_object(answer.body)

    def _find_scope(self, claims: Mapping[str, Any]) -> Scope | None:
        """Return the widest scope that the claim gives, or the default."""
        claim: Any = claims
        for name in self.options.scope_claim.split("."):
            claim = claim.get(name) if isinstance(claim, Mapping) else None
        values = claim if isinstance(claim, list) else [claim]
        given = {self.options.scopes.get(str(value)) for value in values}
        return next((scope for scope in Scope if scope in given), self.options.default_scope)


def _is_matching_key(key: object, name: object, count: int) -> bool:
    """Return whether a key has this name. Without a name, it matches only if it is the only key."""
    if not isinstance(key, Mapping) or key.get("use", "sig") != "sig":
        return False
    return key.get("kid") == name if name is not None else count == 1


def _pick_name(claims: Mapping[str, Any]) -> str:
    """Return the user's preferred name if it is a valid name here, else a name that is made of the immutable
    subject."""
    for claim in ("preferred_username", "email", "sub"):
        name = str(claims.get(claim) or "").lower()
        if _NAME.fullmatch(name):
            return name
    return f"oidc-{hashlib.sha256(str(claims['sub']).encode()).hexdigest()[:16]}"


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Unavailable("The OpenID Connect provider returned something that is not JSON.", code="oidc_unavailable")
    return value


def _make_refused_error(sentence: str) -> NotAuthenticated:
    return NotAuthenticated(sentence, hint="Start again at /api/session/oidc.", code="oidc_refused")
