"""TLS for the bus client, from files that are checked before anything connects."""

from __future__ import annotations

import ssl
from pathlib import Path

from corral.domain.errors import InvalidRequest

CA_VARIABLE = "CORRAL_NATS_TLS_CA"
CERT_VARIABLE = "CORRAL_NATS_TLS_CERT"
KEY_VARIABLE = "CORRAL_NATS_TLS_KEY"


def client_tls(*, tls_ca: Path | None, tls_cert: Path | None, tls_key: Path | None) -> ssl.SSLContext | None:
    """The context for these files, or None without any; `InvalidRequest` names the variable that is wrong."""
    if (tls_cert is None) != (tls_key is None):
        given, missing = (CERT_VARIABLE, KEY_VARIABLE) if tls_cert else (KEY_VARIABLE, CERT_VARIABLE)
        raise InvalidRequest(f"{given} is set and {missing} is not.", hint="Set both of them, or none.")
    for variable, path in ((CA_VARIABLE, tls_ca), (CERT_VARIABLE, tls_cert), (KEY_VARIABLE, tls_key)):
        if path is not None and not path.is_file():
            raise InvalidRequest(f"{variable} names a file that does not exist: {path}.")
    if tls_ca is None and tls_cert is None:
        return None
    context = _load(CA_VARIABLE, tls_ca)
    if tls_cert is not None and tls_key is not None:
        try:
            context.load_cert_chain(tls_cert, tls_key)
        except (ssl.SSLError, OSError) as error:
            raise InvalidRequest(
                f"{CERT_VARIABLE} and {KEY_VARIABLE} cannot be used: {_reason(error)}.",
                hint="Both must be PEM files, and the key must belong to the certificate.",
            ) from error
    return context


def _load(variable: str, ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (ssl.SSLError, OSError) as error:
        raise InvalidRequest(f"{variable} cannot be used: {_reason(error)}.", hint="A PEM file is expected.") from error


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
