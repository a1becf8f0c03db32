"""Settings about people, and what becomes of them."""

from __future__ import annotations

import pytest

from corral.app.frontend import _make_oidc_options
from corral.app.settings import FrontendSettings
from corral.domain.access import Scope
from tests.unit.app.test_settings import frontend, problems, refusal

PROVIDER = {"CORRAL_OIDC_ISSUER": "https://login.example.com/", "CORRAL_OIDC_CLIENT_ID": "corral"}


@pytest.mark.behaviour("GW-126")
def test_oidc_provider_is_configured_by_settings_and_its_claim_names_keep_their_case() -> None:
    more = {
        "CORRAL_OIDC_CLIENT_SECRET": "secret",
        "CORRAL_OIDC_SCOPE_CLAIM": "realm_access.roles",
        "CORRAL_OIDC_SCOPES": "corral-admins = admin,cn=ops=operate,",
        "CORRAL_OIDC_DEFAULT_SCOPE": "Infer",
        "CORRAL_PUBLIC_URL": "https://corral.example.com/",
    }
    settings: FrontendSettings = frontend(**PROVIDER, **more)
    options = _make_oidc_options(settings)
    assert options is not None
    assert (options.issuer, options.client_id, options.client_secret) == (
        "https://login.example.com/",
        "corral",
        "secret",
    )
    assert options.scopes == {"corral-admins": Scope.ADMIN, "cn=ops": Scope.OPERATE}
    assert (options.scope_claim, options.default_scope) == ("realm_access.roles", Scope.INFER)
    assert settings.public_url == "https://corral.example.com"
    assert "secret" not in repr(options)


@pytest.mark.behaviour("GW-126")
def test_identity_settings_have_no_provider_by_default() -> None:
    assert _make_oidc_options(frontend()) is None


@pytest.mark.behaviour("GW-126")
@pytest.mark.parametrize("alone", PROVIDER)
def test_provider_and_our_name_there_go_together(alone: str) -> None:
    error = refusal(environ={alone: PROVIDER[alone]})
    assert len(problems(error)) == 1
    assert "the provider needs the client id" in str(error)


@pytest.mark.behaviour("GW-126")
@pytest.mark.parametrize(
    ("name", "value", "phrase"),
    [
        ("CORRAL_OIDC_ISSUER", "login.example.com", "is not an address"),
        ("CORRAL_OIDC_SCOPES", "admins", "'admins'"),
        ("CORRAL_OIDC_SCOPES", "admins=root", "admin, operate or infer"),
        ("CORRAL_OIDC_SCOPES", "=admin", "'=admin'"),
        ("CORRAL_OIDC_SCOPES", "a=admin,a=infer", "twice"),
        ("CORRAL_OIDC_DEFAULT_SCOPE", "root", "root"),
    ],
)
def test_invalid_identity_settings_are_refused_by_name(name: str, value: str, phrase: str) -> None:
    error = refusal(environ=PROVIDER | {name: value})
    (problem,) = problems(error)
    assert name in str(problem) + str(error)
    assert phrase in str(problem) + str(error)
