"""`/api/session`: how a browser comes in and goes out. The cookie is for our own page; programs use keys."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from corral.access.sessions import LIFE_S
from corral.api.access.users import who_am_i
from corral.api.parts import SESSION_COOKIE, Parts, PartsIn, who
from corral.domain.errors import NotAuthenticated
from corral.wire.users import LoginIn, MeOut, WaysOut

router = APIRouter(prefix="/api", tags=["access"])
_NO_SESSION = "There is no session."


@router.post("/session", status_code=201)
async def log_in(request: Request, response: Response, parts: PartsIn, body: LoginIn) -> MeOut:
    """Come in with name and password, or with a key; the answer sets the cookie of a session of 24 hours, never the key
    itself. A session that was opened with a key ends at once when that is revoked or rotated. 429 after five wrong
    passwords a minute for one name from one address, twenty for all names from one, or five wrong keys from one."""
    address = request.client.host if request.client else ""
    user_agent = request.headers.get("user-agent", "")
    if body.key is not None:
        of_key = await parts.sessions.enter_with_key(parts.directory, body.key, address, user_agent)
        give_cookie(request, response, parts, of_key.secret)
        return await who_am_i(of_key.principal)
    assert body.name is not None, "the body was checked"
    assert body.password is not None, "the body was checked"
    opened = await parts.sessions.log_in(body.name, body.password, address, user_agent)
    await parts.directory.load_sessions({opened.user.id})
    give_cookie(request, response, parts, opened.secret)
    return await who_am_i(await parts.directory.session(opened.secret))


@router.get("/session/ways")
async def list_ways(parts: PartsIn) -> WaysOut:
    """How one can come in here, for a page that asks people to."""
    return WaysOut(password=True, provider=parts.sessions.oidc.options.issuer if parts.sessions.oidc else None)


@router.get("/session")
async def show_session(request: Request, parts: PartsIn) -> MeOut:
    """Whose session this browser has."""
    _cookie(request)
    return await who_am_i(await who(request, parts))


@router.delete("/session", status_code=204)
async def log_out(request: Request, response: Response, parts: PartsIn) -> None:
    """End the session of this browser: here before this answer, elsewhere a moment later."""
    secret = _cookie(request)
    await who(request, parts)
    owner_id = await parts.sessions.log_out(secret)
    if owner_id is not None:
        await parts.directory.load_sessions({owner_id})
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")


def give_cookie(request: Request, response: Response, parts: Parts, secret: str) -> None:
    """The cookie. Scripts cannot read it, other sites cannot send it, and over https it stays on https."""
    response.set_cookie(
        SESSION_COOKIE,
        secret,
        max_age=LIFE_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_https(request, parts),
    )


def is_https(request: Request, parts: Parts) -> bool:
    address = parts.public_url or str(request.base_url)
    return address.startswith("https:")


def _cookie(request: Request) -> str:
    secret = request.cookies.get(SESSION_COOKIE)
    if not secret:
        raise NotAuthenticated(_NO_SESSION, hint="POST /api/session opens one.", code="session_ended")
    return secret
