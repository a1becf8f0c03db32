"""Users and their sessions as JSON. Passwords go in and never come out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from corral.domain.access import Scope
from corral.wire.access import SCOPES, LimitOut
from corral.wire.base import Lenient, Strict

# Also an address of mail. Kept in lower case.
UserName = Annotated[
    str, StringConstraints(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$", to_lower=True)
]
# Long enough that a list of common ones does not help; at most what nobody types.
Password = Annotated[str, StringConstraints(min_length=8, max_length=1024)]


class UserIn(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ada", "scope": "operate"}]})

    name: UserName
    scope: Scope = Field(default=Scope.INFER, description=SCOPES)
    password: Password | None = Field(
        default=None, repr=False, description="Without one they hold keys, but cannot log in."
    )


class UserPatch(Strict):
    """What shall be different; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"disabled": True}]})

    scope: Scope | None = Field(default=None, description=SCOPES)
    password: Password | None = Field(default=None, repr=False, description="Ends the sessions of the old one.")
    disabled: bool | None = Field(default=None, description="Their keys and sessions stop at once.")


class UserOut(Lenient):
    id: str
    name: str
    scope: str = Field(description=SCOPES)
    has_password: bool
    issuer: str = Field(description="The provider that vouches for them; empty: none.")
    created_at: datetime
    created_by: str
    disabled_at: datetime | None


class LoginIn(Strict):
    """Either a name and its password, or a key."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ada", "password": "…"}, {"key": "ck_…"}]})

    name: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    password: Annotated[str, StringConstraints(max_length=1024)] | None = Field(default=None, repr=False)
    key: Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)] | None = Field(
        default=None, repr=False, description="An API key; the session may what it may, and ends with it."
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> LoginIn:
        has_key, has_name = self.key is not None, self.name is not None and self.password is not None
        if has_key == has_name or (has_key and (self.name, self.password) != (None, None)):
            raise ValueError("give name and password, or a key")
        return self


class MeOut(Lenient):
    """Who one is."""

    name: str
    scope: str = Field(description=SCOPES)
    key_id: str | None = Field(description="null: a session")
    user_id: str | None
    node_id: str | None = Field(description="The agent node that the key belongs to.")
    models: list[str] | None = Field(description="Patterns of what may be asked; null: every model.")
    limits: list[LimitOut]


class WaysOut(Lenient):
    password: bool
    provider: str | None = Field(description="Who vouches for people who begin at /api/session/oidc; null: nobody.")
