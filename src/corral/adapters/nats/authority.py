"""Holds what lets clients onto the bus: a NATS operator, its system account and the account that Corral uses.

One `NatsAuthority` belongs to one bus. `render_server_config` runs nats-server in operator mode, with a resolver that
takes account changes (revocations) while it runs. Preloaded accounts carry a fixed old date: at a restart they never
replace an account that has been changed since, because the server keeps the newer one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.adapters.nats.keys import JWT_VERSION, NatsKey, NatsKeyKind, key_from_seed, new_key, sign_claims
from corral.bus.codec import MAX_PAYLOAD_BYTES
from corral.domain.errors import InvalidRequest

# 2024-01-01T00:00:00Z: older than any change that is ever pushed.
PRELOAD_ISSUED_AT = 1_704_067_200
# A cluster is a handful of machines; the limit keeps a runaway client from eating the server's memory.
MAX_CONNECTIONS = 4096
# A client that does not read for this long is cut off instead of holding up the others.
WRITE_DEADLINE_S = 10

_UNLIMITED = {"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1}


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsServerTls:
    """Names the files for the TLS block of nats-server's configuration.

    With `verify`, a client must show a certificate signed by `ca`.
    """

    cert: Path
    key: Path
    ca: Path | None = None
    verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsAuthority:
    """Private keys (seeds) of a NATS operator and its accounts, which sign the credentials of NATS clients.

    The holder of the operator seed can do everything on the bus.
    """

    operator_seed: str = field(repr=False)
    account_seed: str = field(repr=False)
    system_seed: str = field(repr=False)

    def __post_init__(self) -> None:
        key_from_seed(self.operator_seed, NatsKeyKind.OPERATOR)
        key_from_seed(self.account_seed, NatsKeyKind.ACCOUNT)
        key_from_seed(self.system_seed, NatsKeyKind.ACCOUNT)

    @classmethod
    def create(cls) -> NatsAuthority:
        return cls(
            operator_seed=new_key(NatsKeyKind.OPERATOR).seed,
            account_seed=new_key(NatsKeyKind.ACCOUNT).seed,
            system_seed=new_key(NatsKeyKind.ACCOUNT).seed,
        )

    def to_json(self) -> str:
        """Return the three seeds as text. Secret: the file that holds the text belongs to its owner alone."""
        seeds = {
            "operator_seed": self.operator_seed,
            "account_seed": self.account_seed,
            "system_seed": self.system_seed,
        }
        return json.dumps(seeds, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> NatsAuthority:
        try:
            seeds = json.loads(text)
            return cls(
                operator_seed=str(seeds["operator_seed"]),
                account_seed=str(seeds["account_seed"]),
                system_seed=str(seeds["system_seed"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequest(
                "The file with the bus authority is damaged: three seeds are expected in it.",
                hint="Restore it from a backup. A new authority means that every node must join again.",
            ) from error

    @property
    def operator_key(self) -> NatsKey:
        return key_from_seed(self.operator_seed, NatsKeyKind.OPERATOR)

    @property
    def account_key(self) -> NatsKey:
        return key_from_seed(self.account_seed, NatsKeyKind.ACCOUNT)

    @property
    def system_key(self) -> NatsKey:
        return key_from_seed(self.system_seed, NatsKeyKind.ACCOUNT)

    def render_server_config(self, *, host: str, port: int, directory: Path, tls: NatsServerTls | None = None) -> str:
        """Return the text of a nats-server configuration. It holds no seed, only signed public claims."""
        accounts = directory / "accounts"
        settings: dict[str, Any] = {
            "listen": f"{_add_brackets(host)}:{port}",
            "operator": self._make_operator_token(),
            "system_account": self.system_key.public,
            "resolver": {"type": "full", "dir": str(accounts), "allow_delete": False, "interval": "2m"},
            "resolver_preload": {
                self.account_key.public: sign_account_token(self.operator_key, self.account_key.public, name="corral"),
                self.system_key.public: sign_account_token(self.operator_key, self.system_key.public, name="system"),
            },
            "max_payload": MAX_PAYLOAD_BYTES,
            "max_connections": MAX_CONNECTIONS,
            "write_deadline": f"{WRITE_DEADLINE_S}s",
        }
        if tls is not None:
            settings["tls"] = _render_tls_block(tls)
        # JSON is a subset of the server's own format, except that the server does not know \\u escapes.
        lines = [f"{name}: {json.dumps(value, indent=2, ensure_ascii=False)}" for name, value in settings.items()]
        return "\n".join(lines) + "\n"

    def _make_operator_token(self) -> str:
        operator = self.operator_key
        claims = {
            "sub": operator.public,
            "iat": PRELOAD_ISSUED_AT,
            "name": "corral",
            "nats": {"type": "operator", "version": JWT_VERSION, "system_account": self.system_key.public},
        }
        return sign_claims(claims, operator)


def make_account_claims(public_key: str, *, name: str) -> dict[str, Any]:
    """Return the claims of an account without limits of its own; what its users may do is in their own claims."""
    return {
        "sub": public_key,
        "iat": PRELOAD_ISSUED_AT,
        "name": name,
        "nats": {
            "type": "account",
            "version": JWT_VERSION,
            "limits": {**_UNLIMITED, "wildcards": True},
            "default_permissions": {"pub": {}, "sub": {}},
        },
    }


def sign_account_token(operator: NatsKey, public_key: str, *, name: str) -> str:
    return sign_claims(make_account_claims(public_key, name=name), operator)


def _render_tls_block(tls: NatsServerTls) -> dict[str, Any]:
    block: dict[str, Any] = {"cert_file": str(tls.cert), "key_file": str(tls.key), "verify": tls.verify}
    if tls.ca is not None:
        block["ca_file"] = str(tls.ca)
    return block


def _add_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
