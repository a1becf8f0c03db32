"""Logging: one formatter for everybody's lines, and no secret passes it."""

from __future__ import annotations

import io
import json
import logging
import string
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from corral.app import redaction
from corral.app.logs import configure_logging, set_log_level
from corral.app.redaction import MASK, TEXT_MAX, redact, redact_text
from corral.app.settings import LogFormat, LogLevel

URL_SAFE = string.ascii_letters + string.digits + "-_"
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
secrets_of_ours = st.builds(
    str.__add__, st.sampled_from(["ck_", "cj_", "cn_"]), st.text(URL_SAFE, min_size=20, max_size=43)
)
seeds = st.builds(str.__add__, st.sampled_from(["SA", "SO", "SU"]), st.text(BASE32, min_size=56, max_size=56))
text_around = st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=20).map(lambda text: text + " ")


@pytest.fixture
def written():
    """Configure logging into a buffer, and put everything back afterwards."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)

    def configure(log_format: LogFormat | None = LogFormat.JSON, level: LogLevel = LogLevel.INFO) -> io.StringIO:
        stream = io.StringIO()
        configure_logging(log_format, level, stream=stream)
        return stream

    yield configure
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
    root.handlers[:] = before[0]
    root.setLevel(before[1])


@pytest.mark.behaviour("OPS-93")
@pytest.mark.parametrize("piece", ["a://", "http://a:", "a://b:", "a" * 60, "bearer ", "eyJ", "eyJaaaaaaaa.a"])
def test_masking_of_a_huge_hostile_text_ends_and_keeps_its_beginning(piece):
    """Masking that looks at each pair of places of this text would take hours."""
    shown = redact_text(f"Bad request: {piece * 1_000_000}")
    assert shown.startswith("Bad request: ")
    assert len(shown) < 2 * TEXT_MAX


@pytest.mark.behaviour("OPS-93")
@pytest.mark.parametrize("name", ["_JWT", "_BEARER", "_OUR_SECRET", "_PASSWORD_PARAMETER"])
@pytest.mark.parametrize("piece", ["eyJ", "eyJaaaaaaaa.", "eyJaaaaaaaa.a ", "a", " ", "bearer ", "ck_"])
def test_expression_without_a_bound_reads_a_text_of_millions_of_characters_in_one_pass(name, piece):
    """One that reads on to the end from each of these places would take hours: the work would grow with the square."""
    assert getattr(redaction, name).sub("", piece * 1_000_000) is not None


@pytest.mark.behaviour("OPS-93")
@pytest.mark.parametrize("before", ["", " ", "token=x,", "node.host.", "x", "eyeyJ", "-_"])
def test_token_of_the_bus_is_masked_also_where_it_is_glued_to_other_text(before):
    jwt = "eyJhbGciOiJlZDI1NTE5.eyJzdWIiOiJ4.c2lnbmF0dXJl"
    shown = redact_text(f"{before}{jwt} it failed")
    assert "hbGciOiJlZDI1NTE5" not in shown
    assert "c2lnbmF0dXJl" not in shown
    assert shown.endswith("it failed")


@pytest.mark.behaviour("OPS-93")
@given(before=text_around, secret=st.one_of(secrets_of_ours, seeds), after=text_around)
def test_our_secrets_are_masked_anywhere_in_a_text(before, secret, after):
    assert secret not in redact_text(f"{before}{secret} {after}")


@pytest.mark.behaviour("OPS-93")
@given(
    scheme=st.sampled_from(["postgresql", "postgresql+asyncpg", "nats", "tls", "http", "https", "redis"]),
    user=st.text(string.ascii_lowercase, min_size=1, max_size=8),
    password=st.text(min_size=8, max_size=30).map(lambda text: "pw" + quote(text, safe="@!$&'()*,;=")),
)
def test_passwords_in_addresses_are_masked(scheme, user, password):
    shown = redact_text(f"cannot reach {scheme}://{user}:{password}@db.example:5432/corral now")
    assert password not in shown
    assert "db.example:5432/corral" in shown


@pytest.mark.behaviour("OPS-93")
@pytest.mark.parametrize(
    "key",
    ["password", "db_password", "token", "join_token", "client_secret", "seed", "credential", "Authorization",
     "api_key", "apikey", "jwt", "nats_jwt", "admin_key"],
)  # fmt: skip
def test_values_under_telling_keys_are_masked_also_deep_inside(key):
    assert redact({"outer": [{key: "plain-words"}]}) == {"outer": [{key: MASK}]}
    assert redact(12345, key) == MASK
    assert redact(b"plain-words", key) == MASK


def test_keys_that_only_describe_a_secret_are_not_masked():
    kept = {
        "token_id": "t1",
        "token_name": "rack 2",
        "expires_at": "x",
        "prompt_tokens": 12,
        "token_ttl_s": 5,
        "ok": True,
    }
    assert redact(kept) == kept
    assert redact_text("token cj_9fKq of http://host:8080/api/nodes") == "token cj_9fKq of http://host:8080/api/nodes"


@pytest.mark.behaviour("OPS-93")
@pytest.mark.parametrize("log_format", list(LogFormat))
def test_log_holds_no_secret_of_a_message_field_traceback_or_library(written, log_format):
    stream = written(log_format)
    key, jwt = "ck_" + "a1" * 16, "eyJhbGciOiJlZDI1NTE5.eyJzdWIiOiJ4.c2lnbmF0dXJl"
    log = structlog.get_logger("corral.test")
    log.info("connected", url="postgresql://u:hunter22@h/d", token="plain-words")
    log.info("key is %s", key)
    logging.getLogger("uvicorn.error").warning("Authorization: Bearer %s", jwt)
    try:
        raise ValueError(f"refused {key} at nats://u:hunter22@bus")
    except ValueError:
        log.exception("it failed")
        logging.getLogger("asyncio").exception("task failed")
    text = stream.getvalue()
    assert "it failed" in text
    assert "ValueError" in text
    for secret in ("hunter22", "plain-words", key, jwt):
        assert secret not in text


def test_lines_of_libraries_look_like_ours(written):
    stream = written()
    uvicorn = logging.getLogger("uvicorn")
    uvicorn.addHandler(logging.StreamHandler(io.StringIO()))
    configure_logging(LogFormat.JSON, stream=stream)
    uvicorn.warning("started on %s", "8080")
    logging.getLogger("sqlalchemy.engine").info("SELECT 1")
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert (record["event"], record["level"], record["logger"]) == ("started on 8080", "warning", "uvicorn")
    assert record["timestamp"].endswith("Z")


def test_text_without_a_terminal_has_no_colour(written):
    stream = written(LogFormat.TEXT)
    structlog.get_logger("corral.test").warning("node is offline", node="gpu-a")
    assert "\x1b" not in stream.getvalue()
    assert "node is offline" in stream.getvalue()
    assert "node=gpu-a" in stream.getvalue()


def test_log_to_a_file_is_json_by_default_without_lines_below_the_level(written):
    stream = written(None, LogLevel.WARNING)
    structlog.get_logger("corral.test").info("hidden")
    structlog.get_logger("corral.test").error("shown")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["event"] == "shown"


@pytest.mark.behaviour("SET-20")
def test_log_level_that_is_changed_later_decides_about_lines_from_then_on(written):
    stream = written(level=LogLevel.WARNING)
    structlog.get_logger("a").info("before")
    set_log_level(LogLevel.DEBUG)
    structlog.get_logger("a").debug("after")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["after"]
