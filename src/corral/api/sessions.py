"""`/api/session`: sign in and out with a browser. The cookie is for Corral's own page; programs use keys.

`/api/session/oidc` signs in through an OpenID Connect provider. The browser carries the state of its login in a
cookie, so that any frontend can finish the login. That cookie is `Lax`: the redirect back begins at another site, and
a `Strict` cookie would not be sent.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from corral.access.oidc import OidcClient, PendingLogin
from corral.access.sessions import SESSION_LIFE_S
from corral.api.access import show_caller
from corral.api.deps import SESSION_COOKIE, ApiDeps, DepsIn, authenticate_caller
from corral.domain.errors import NotAuthenticated, NotFound
from corral.wire.access import CallerOut, LoginIn, LoginMethodsOut

router = APIRouter(prefix="/api", tags=["access"])
_NO_SESSION = "There is no session."
LOGIN_COOKIE = "corral_login"
# How long a person may take at the provider.
LOGIN_LIFE_S = 600
_OIDC_PATH = "/api/session/oidc"
_Word = Annotated[str, Query(max_length=4096)]


@router.post("/session", status_code=201)
async def log_in(request: Request, response: Response, deps: DepsIn, body: LoginIn) -> CallerOut:
    """Sign in with name and password, or with a key. The response sets the cookie of a session of 24 hours, never the
    key itself. A session that was opened with a key ends when the key is revoked or rotated. 429 after five wrong
    passwords a minute for one name from one address, twenty for all names from one address, or five wrong keys from one
    address."""
    address = request.client.host if request.client else ""
    user_agent = request.headers.get("user-agent", "")
    if body.key is not None:
        of_key = await deps.sessions.log_in_with_key(deps.directory, body.key, address, user_agent)
        set_session_cookie(request, response, deps, of_key.secret)
        return await show_caller(of_key.principal)
    assert body.name is not None, "the body was checked"
    assert body.password is not None, "the body was checked"
    user_session = await deps.sessions.log_in(body.name, body.password, address, user_agent)
    await deps.directory.load_sessions({user_session.user.id})
    set_session_cookie(request, response, deps, user_session.secret)
    return await show_caller(await deps.directory.authenticate_session(user_session.secret))


@router.get("/session/ways")
async def list_login_methods(deps: DepsIn) -> LoginMethodsOut:
    """List the ways to sign in, for a sign-in page."""
    return LoginMethodsOut(password=True, provider=deps.sessions.oidc.options.issuer if deps.sessions.oidc else None)


@router.get("/session")
async def show_session(request: Request, deps: DepsIn) -> CallerOut:
    """Show the user or key that the session of this browser belongs to."""
    _get_cookie(request)
    return await show_caller(await authenticate_caller(request, deps))


@router.delete("/session", status_code=204)
async def log_out(request: Request, response: Response, deps: DepsIn) -> None:
    """End the session of this browser: at this frontend at once, at the others a moment later."""
    secret = _get_cookie(request)
    await authenticate_caller(request, deps)
    owner_id = await deps.sessions.log_out(secret)
    if owner_id is not None:
        await deps.directory.load_sessions({owner_id})
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")


def set_session_cookie(request: Request, response: Response, deps: ApiDeps, secret: str) -> None:
    """Set the cookie of a session. Scripts cannot read it, other sites cannot send it, and over https it stays on
    https."""
    response.set_cookie(
        SESSION_COOKIE,
        secret,
        max_age=SESSION_LIFE_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_https(request, deps),
    )


def is_https(request: Request, deps: ApiDeps) -> bool:
    address = deps.public_url or str(request.base_url)
    return address.startswith("https:")


def _get_cookie(request: Request) -> str:
    secret = request.cookies.get(SESSION_COOKIE)
    if not secret:
        raise NotAuthenticated(_NO_SESSION, hint="POST /api/session opens a session.", code="session_ended")
    return secret


@router.get("/session/oidc", status_code=303, response_class=RedirectResponse)
async def begin_provider_login(request: Request, deps: DepsIn) -> Response:
    """Redirect the browser to the OpenID Connect provider of the settings."""
    address, pending = await _get_oidc_client(deps).begin_login(_make_redirect_uri(request, deps))
    response = RedirectResponse(address, status_code=303)
    response.set_cookie(
        LOGIN_COOKIE,
        pending.to_text(),
        max_age=LOGIN_LIFE_S,
        path=_OIDC_PATH,
        httponly=True,
        samesite="lax",
        secure=is_https(request, deps),
    )
    return response


@router.get("/session/oidc/callback", status_code=303, response_class=RedirectResponse)
async def finish_provider_login(
    request: Request, deps: DepsIn, code: _Word = "", state: _Word = "", error: _Word = ""
) -> Response:
    """Finish a login when the provider sends the browser back: open a session and redirect to the page."""
    oidc = _get_oidc_client(deps)
    if error or not code:
        raise NotAuthenticated(
            f"The provider refused the login: {_sanitise_word(error) or 'no reason given'}.", code="oidc_refused"
        )
    begun = PendingLogin.from_text(request.cookies.get(LOGIN_COOKIE, ""))
    identity = await oidc.finish_login(_make_redirect_uri(request, deps), code, state, begun)
    session = await deps.sessions.log_in_with_identity(identity, request.headers.get("user-agent", ""))
    await deps.directory.load_sessions({session.user.id})
    response = RedirectResponse("/", status_code=303)
    # The state of a login is used once.
    response.delete_cookie(LOGIN_COOKIE, path=_OIDC_PATH, httponly=True, samesite="lax")
    set_session_cookie(request, response, deps, session.secret)
    return response


def _get_oidc_client(deps: ApiDeps) -> OidcClient:
    if deps.sessions.oidc is None:
        raise NotFound(
            "No OpenID Connect provider is configured.",
            hint="Set oidc_issuer and oidc_client_id, or sign in with a password or a key.",
            code="oidc_not_set",
        )
    return deps.sessions.oidc


def _make_redirect_uri(request: Request, deps: ApiDeps) -> str:
    """Return the callback address as the browser knows it; it must be registered at the provider."""
    base = deps.public_url or str(request.base_url)
    return f"{base.rstrip('/')}{_OIDC_PATH}/callback"


def _sanitise_word(word: str) -> str:
    """Return an error code from the address with only the characters that such a code can have."""
    return "".join(letter for letter in word[:64] if letter.isascii() and (letter.isalnum() or letter in "_-"))
