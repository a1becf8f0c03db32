"""Settings about people: the address that browsers use, and the provider that vouches for them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from corral.app.settings.values import AnyCase, WebAddress, check_web_address
from corral.domain.access import Scope

_NONE: dict[str, Any] = {"shown_default": "none"}


def parse_scopes(text: str) -> dict[str, Scope]:
    """`corral-admins=admin,developers=infer`"""
    scopes: dict[str, Scope] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        value, equals, scope = (word.strip() for word in part.rpartition("="))
        if not equals or not value or scope not in set(Scope):
            raise ValueError(
                f"has a part that makes no sense ({part!r}): write value=scope, with admin, operate or infer"
            )
        if value in scopes:
            raise ValueError(f"names {value!r} twice")
        scopes[value] = Scope(scope)
    return scopes


def _check_scopes(text: str) -> str:
    parse_scopes(text)
    return text


def _check_issuer(text: str) -> str:
    """As it was written: a provider's name is compared letter by letter, the last slash, too."""
    check_web_address(text)
    return text.strip()


class Identity(BaseModel):
    """Part of `FrontendSettings`."""

    model_config = ConfigDict(defer_build=True)

    public_url: WebAddress | None = Field(
        default=None,
        description="Address by which browsers and new machines reach the frontends, if a proxy stands before them.",
        json_schema_extra={"shown_default": "the one that each browser asks by"},
    )
    oidc_issuer: Annotated[str, AfterValidator(_check_issuer)] | None = Field(
        default=None,
        description="Provider of identities (OpenID Connect), exactly as it writes itself. Goes with the client id.",
        json_schema_extra=_NONE,
    )
    oidc_client_id: str | None = Field(
        default=None, min_length=1, description="What the provider calls this cluster.", json_schema_extra=_NONE
    )
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Secret of the client at the provider; a public client has none."
    )
    oidc_scope_claim: str = Field(
        default="groups",
        min_length=1,
        description="Claim of a token that says what its holder may; dots lead into it: realm_access.roles.",
    )
    oidc_scopes: Annotated[str, AfterValidator(_check_scopes)] = Field(
        default="",
        description="Which values of the claim give which scope: corral-admins=admin,developers=infer.",
        json_schema_extra=_NONE,
    )
    oidc_default_scope: Annotated[Scope, AnyCase] | None = Field(
        default=None,
        description="Scope of those to whom the claim gives none.",
        json_schema_extra={"shown_default": "they stay outside"},
    )
