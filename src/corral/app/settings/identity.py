"""Settings about people: the address that browsers use, and the OpenID Connect provider."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from corral.app.settings.values import AnyCase, WebAddress, check_web_address
from corral.domain.access import Scope

_NONE: dict[str, Any] = {"shown_default": "none"}


def parse_scopes(text: str) -> dict[str, Scope]:
    """Parse text such as `corral-admins=admin,developers=infer` into scopes by value of the claim."""
    scopes: dict[str, Scope] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        value, equals, scope = (word.strip() for word in part.rpartition("="))
        if not equals or not value or scope not in set(Scope):
            raise ValueError(f"has an invalid part ({part!r}): write value=scope, with admin, operate or infer")
        if value in scopes:
            raise ValueError(f"names {value!r} twice")
        scopes[value] = Scope(scope)
    return scopes


def _check_scopes(text: str) -> str:
    parse_scopes(text)
    return text


def _check_issuer(text: str) -> str:
    """Check the address of the provider and return it unchanged, because issuers are compared letter by letter."""
    check_web_address(text)
    return text.strip()


class IdentitySettings(BaseModel):
    """Part of `FrontendSettings`: the public address, and the OpenID Connect provider."""

    model_config = ConfigDict(defer_build=True)

    public_url: WebAddress | None = Field(
        default=None,
        description="Address by which browsers and new machines reach the frontends, if there is a proxy in front "
        "of them.",
        json_schema_extra={"shown_default": "the one that each browser uses"},
    )
    oidc_issuer: Annotated[str, AfterValidator(_check_issuer)] | None = Field(
        default=None,
        description="Issuer address of the OpenID Connect provider, exactly as the provider writes it. Requires "
        "the client id.",
        json_schema_extra=_NONE,
    )
    oidc_client_id: str | None = Field(
        default=None, min_length=1, description="Client id of this cluster at the provider.", json_schema_extra=_NONE
    )
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Secret of the client at the provider; a public client has none."
    )
    oidc_scope_claim: str = Field(
        default="groups",
        min_length=1,
        description="Claim that gives users their scope; dots lead into nested claims: realm_access.roles.",
    )
    oidc_scopes: Annotated[str, AfterValidator(_check_scopes)] = Field(
        default="",
        description="Which values of the claim give which scope: corral-admins=admin,developers=infer.",
        json_schema_extra=_NONE,
    )
    oidc_default_scope: Annotated[Scope, AnyCase] | None = Field(
        default=None,
        description="Scope of users to whom the claim gives none.",
        json_schema_extra={"shown_default": "they cannot sign in"},
    )
