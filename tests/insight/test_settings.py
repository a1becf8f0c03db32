"""What is seen of requests is a matter of settings."""

from __future__ import annotations

import sys

import pytest

from corral.adapters.traces import OtlpSpanExporter
from corral.app.insight import open_span_exporter
from corral.app.settings import FrontendSettings, load_settings
from corral.domain.errors import InvalidRequest
from corral.insight.access_log import AccessLogStyle

NEEDED = {
    "CORRAL_DATABASE_URL": "postgresql://corral@db:5432/corral",
    "CORRAL_NATS_URL": "nats://bus:4222",
    "CORRAL_NATS_ACCOUNT_SEED": "SA" + "A" * 56,
}


def settings(**variables: str) -> FrontendSettings:
    return load_settings(FrontendSettings, environ=NEEDED | variables).settings


@pytest.mark.behaviour("GW-183")
def test_access_log_and_traces_are_off_by_default() -> None:
    usual = settings()
    assert usual.access_log is AccessLogStyle.OFF
    assert open_span_exporter(usual, "f") is None


async def test_endpoint_is_where_traces_go() -> None:
    spans = open_span_exporter(settings(CORRAL_OTLP_ENDPOINT="http://collector:4318/", CORRAL_TRACE_SHARE="0.1"), "f")
    assert isinstance(spans, OtlpSpanExporter)
    await spans.close()


def test_start_with_tracing_is_refused_with_a_hint_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "corral.adapters.traces", None)
    with pytest.raises(InvalidRequest) as refused:
        open_span_exporter(settings(CORRAL_OTLP_ENDPOINT="http://collector:4318"), "f")
    assert "corral[otel]" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "wrong", [{"CORRAL_ACCESS_LOG": "loud"}, {"CORRAL_TRACE_SHARE": "1.5"}, {"CORRAL_OTLP_ENDPOINT": "collector"}]
)
def test_invalid_insight_settings_prevent_the_start(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        settings(**wrong)
