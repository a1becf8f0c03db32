"""`/api/session/oidc`: to the provider of identities and back.

The browser carries what belongs to its login in a cookie of its own, so that any frontend can take it back. That cookie
is `Lax`: the way back begins at another site, and a `Strict` one would stay behind.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from corral.access.oidc import Begun, Oidc
from corral.api.access.sessions import give_cookie, is_https
from corral.api.parts import Parts, PartsIn
from corral.domain.errors import NotAuthenticated, NotFound

router = APIRouter(prefix="/api", tags=["access"])
COOKIE = "corral_login"
# How long somebody may take at the provider.
LIFE_S = 600
_PATH = "/api/session/oidc"
Word = Annotated[str, Query(max_length=4096)]


@router.get("/session/oidc", status_code=303, response_class=RedirectResponse)
async def begin_at_provider(request: Request, parts: PartsIn) -> Response:
    """Send the browser to the provider of identities that the settings name."""
    address, begun = await _oidc(parts).begin(_back(request, parts))
    response = RedirectResponse(address, status_code=303)
    response.set_cookie(
        COOKIE,
        begun.written(),
        max_age=LIFE_S,
        path=_PATH,
        httponly=True,
        samesite="lax",
        secure=is_https(request, parts),
    )
    return response


@router.get("/session/oidc/callback", status_code=303, response_class=RedirectResponse)
async def come_back_from_provider(
    request: Request, parts: PartsIn, code: Word = "", state: Word = "", error: Word = ""
) -> Response:
    """Where the provider sends the browser back to. A login that holds becomes a session, and the page is shown."""
    oidc = _oidc(parts)
    if error or not code:
        raise NotAuthenticated(
            f"The provider did not let you in: {_plain(error) or 'it said nothing'}.", code="oidc_refused"
        )
    begun = Begun.read(request.cookies.get(COOKIE, ""))
    identity = await oidc.finish(_back(request, parts), code, state, begun)
    opened = await parts.sessions.enter(identity, request.headers.get("user-agent", ""))
    await parts.directory.load_sessions({opened.user.id})
    response = RedirectResponse("/", status_code=303)
    # A login is for once.
    response.delete_cookie(COOKIE, path=_PATH, httponly=True, samesite="lax")
    give_cookie(request, response, parts, opened.secret)
    return response


def _oidc(parts: Parts) -> Oidc:
    if parts.sessions.oidc is None:
        raise NotFound(
            "No provider of identities is set here.", hint="The setting oidc_issuer names one.", code="oidc_not_set"
        )
    return parts.sessions.oidc


def _back(request: Request, parts: Parts) -> str:
    """Our address as the browser knows it; the provider has it in its list."""
    base = parts.public_url or str(request.base_url)
    return f"{base.rstrip('/')}{_PATH}/callback"


def _plain(word: str) -> str:
    """What a stranger put into our address, cut to what an error's code can be."""
    return "".join(letter for letter in word[:64] if letter.isascii() and (letter.isalnum() or letter in "_-"))
