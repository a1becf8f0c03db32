"""Addresses with the wrong scheme, and certificates: what a command says about them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.certificates import CertificateFiles, write_certificates
from tests.unit.client.standin import KEY, StandIn, a_node, json_answer, served_in_a_thread


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return write_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure_frontend(files):
    """A frontend behind https:// with the certificate of an authority that nobody knows."""
    with served_in_a_thread(StandIn(), files.server_context()) as standin:
        standin.on("GET /api/nodes", json_answer([a_node()]))
        yield standin


def test_command_trusts_the_authorities_of_the_environment_over_https(secure_frontend, files, tmp_path):
    # In a process of its own: there aiohttp is imported by the command, without any certificates.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CORRAL_")}
    environment |= {"HOME": str(tmp_path), "CORRAL_URL": secure_frontend.url, "CORRAL_KEY": KEY}
    outcome = subprocess.run(
        [sys.executable, "-m", "corral", "nodes", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment | {"SSL_CERT_FILE": str(files.ca)},
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "gpu-a" in outcome.stdout


def test_command_names_a_certificate_that_is_not_trusted(corral, secure_frontend):
    outcome = corral("nodes", "list", "--url", secure_frontend.url, "--key", KEY)
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: The certificate of {secure_frontend.url} is not trusted (")
    assert "SSL_CERT_FILE" in outcome.err


def test_https_on_a_plain_port_says_that_it_speaks_http(corral, frontend):
    secure = frontend.url.replace("http:", "https:")
    outcome = corral("nodes", "list", "--url", secure, "--key", KEY)
    assert outcome.code == 1
    assert outcome.err == (
        f"error: {secure} speaks http, not https.\n\nhint: Use {frontend.url} instead, or the port that speaks https.\n"
    )


def test_http_on_a_tls_port_says_that_it_speaks_https(corral, secure_frontend):
    plain = secure_frontend.url.replace("https:", "http:")
    outcome = corral("nodes", "list", "--url", plain, "--key", KEY)
    assert outcome.code == 1
    assert outcome.err == f"error: {plain} speaks https, not http.\n\nhint: Use {secure_frontend.url} instead.\n"


@pytest.mark.parametrize("words", [["nodes", "list"], ["run", "smol", "hi"], ["login", "--key-stdin"]])
def test_address_that_ends_with_v1_is_refused_with_the_right_one(corral, frontend, words):
    url = f"{frontend.url}/v1"
    outcome = corral(*words, *([url] if "login" in words else ["--url", url]), typed=KEY)
    assert outcome.code == 1
    assert f"leave out /v1 here: {frontend.url}" in outcome.err
    assert not frontend.seen
