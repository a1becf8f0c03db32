"""Bodies about users and their sessions. A password is accepted and never returned."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from corral.domain.access import Scope
from corral.wire.access import SCOPES, LimitOut
from corral.wire.base import LenientModel, StrictModel

# A name can be an e-mail address. Names are stored in lower case.
UserName = Annotated[
    str, StringConstraints(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$", to_lower=True)
]
# The minimum rules out most common passwords; the maximum is longer than anybody types.
Password = Annotated[str, StringConstraints(min_length=8, max_length=1024)]


class UserIn(StrictModel):
    """A user to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ada", "scope": "operate"}]})

    name: UserName
    scope: Scope = Field(default=Scope.INFER, description=SCOPES)
    password: Password | None = Field(
        default=None,
        repr=False,
        description="Without a password the user can have keys, but cannot sign in with a name.",
    )


class UserPatch(StrictModel):
    """A change of a user; a field that is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"disabled": True}]})

    scope: Scope | None = Field(default=None, description=SCOPES)
    password: Password | None = Field(
        default=None, repr=False, description="Setting a password ends the sessions of the old one."
    )
    disabled: bool | None = Field(default=None, description="Disabling a user stops their keys and sessions at once.")


class UserOut(LenientModel):
    """A user, without the password."""

    id: str
    name: str
    scope: str = Field(description=SCOPES)
    has_password: bool
    issuer: str = Field(description="The OpenID Connect provider of the user; empty: none.")
    created_at: datetime
    created_by: str
    disabled_at: datetime | None


class LoginIn(StrictModel):
    """A login: either a name and its password, or a key."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ada", "password": "…"}, {"key": "ck_…"}]})

    name: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    password: Annotated[str, StringConstraints(max_length=1024)] | None = Field(default=None, repr=False)
    key: Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)] | None = Field(
        default=None, repr=False, description="An API key; the session has its scope and ends with it."
    )

    @model_validator(mode="after")
    def _check_one_method(self) -> LoginIn:
        has_key, has_name = self.key is not None, self.name is not None and self.password is not None
        if has_key == has_name or (has_key and (self.name, self.password) != (None, None)):
            raise ValueError("give name and password, or a key")
        return self


class CallerOut(LenientModel):
    """Who the caller is, and what they may do."""

    name: str
    scope: str = Field(description=SCOPES)
    key_id: str | None = Field(description="Id of the API key; null: the caller has a session.")
    user_id: str | None
    node_id: str | None = Field(description="The agent node that the key belongs to.")
    models: list[str] | None = Field(description="Patterns of models that may be used; null: all models.")
    limits: list[LimitOut]


class LoginMethodsOut(LenientModel):
    """The ways to log in that this cluster offers."""

    password: bool
    provider: str | None = Field(description="The OpenID Connect provider behind /api/session/oidc; null: none.")
