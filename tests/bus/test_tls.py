"""TLS between client and server, with certificates made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.adapters.nats.authority import NatsServerTls
from corral.adapters.nats.connection import BusWarningLog, NatsConnection, NatsEndpoint, make_client_tls
from corral.bus.subjects import BusRole
from corral.domain.errors import BusUnavailable, InvalidRequest
from tests.bus.nats_server import NatsServer
from tests.support.certificates import CertificateFiles, write_certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    """One authority and one certificate, for the server and for the client."""
    return write_certificates(tmp_path_factory.mktemp("tls"))


async def attempt_with(server: NatsServer, *, ca: Path | None, files: CertificateFiles | None) -> None:
    context = make_client_tls(tls_ca=ca, tls_cert=files.cert if files else None, tls_key=files.key if files else None)
    connection = NatsConnection(
        NatsEndpoint(urls=(server.url,), client_name="tls", tls=context),
        server.provider(BusRole.FRONTEND, "f1")(),
        reporter=BusWarningLog("tls"),
        on_lost=lambda: None,
    )
    await connection.open()
    assert connection.is_open
    await connection.close()


async def test_client_with_a_certificate_is_let_in_and_one_without_is_not(
    tmp_path: Path, files: CertificateFiles
) -> None:
    tls = NatsServerTls(cert=files.cert, key=files.key, ca=files.ca, verify=True)
    async with NatsServer(tmp_path, tls=tls) as server:
        await attempt_with(server, ca=files.ca, files=files)
        with pytest.raises(BusUnavailable):
            await attempt_with(server, ca=files.ca, files=None)


async def test_server_that_is_not_signed_by_the_given_authority_is_not_trusted(
    tmp_path: Path, files: CertificateFiles
) -> None:
    async with NatsServer(tmp_path, tls=NatsServerTls(cert=files.cert, key=files.key)) as server:
        await attempt_with(server, ca=files.ca, files=None)
        with pytest.raises(BusUnavailable, match="TLS failed"):
            await attempt_with(server, ca=None, files=None)


async def test_client_with_tls_does_not_speak_in_clear_text(server: NatsServer, files: CertificateFiles) -> None:
    with pytest.raises(BusUnavailable, match="TLS is configured"):
        await attempt_with(server, ca=files.ca, files=None)


def test_tls_files_come_in_pairs_exist_and_are_named_by_their_variable(tmp_path: Path, files: CertificateFiles) -> None:
    wrong: dict[str, dict[str, Path | None]] = {
        "CORRAL_NATS_TLS_KEY is not": {"tls_ca": None, "tls_cert": files.cert, "tls_key": None},
        "CORRAL_NATS_TLS_CERT is not": {"tls_ca": None, "tls_cert": None, "tls_key": files.key},
        "CORRAL_NATS_TLS_CA names": {"tls_ca": tmp_path / "no", "tls_cert": None, "tls_key": None},
        "CORRAL_NATS_TLS_CERT names": {"tls_ca": None, "tls_cert": tmp_path / "no", "tls_key": files.key},
        "CORRAL_NATS_TLS_KEY names": {"tls_ca": None, "tls_cert": files.cert, "tls_key": tmp_path},
        "CORRAL_NATS_TLS_CA cannot": {"tls_ca": files.key, "tls_cert": None, "tls_key": None},
        "CORRAL_NATS_TLS_CERT and": {"tls_ca": files.ca, "tls_cert": files.ca, "tls_key": files.key},
    }
    for sentence, given in wrong.items():
        with pytest.raises(InvalidRequest, match=sentence):
            make_client_tls(**given)
    assert make_client_tls(tls_ca=None, tls_cert=None, tls_key=None) is None
