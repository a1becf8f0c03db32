"""Where traces go, out of a frontend's settings. What it takes is an extra, imported only here."""

from __future__ import annotations

from corral import __version__
from corral.app.settings import FrontendSettings
from corral.domain.errors import InvalidRequest
from corral.ports.traces import Spans


def open_spans(settings: FrontendSettings, frontend_id: str) -> Spans | None:
    """None if there is no collector; `InvalidRequest` if what it takes is not installed."""
    if settings.otlp_endpoint is None:
        return None
    try:
        from corral.adapters.traces import OtlpSpans  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InvalidRequest(
            "otlp_endpoint is set, and the library for it is not installed.",
            hint="Install Corral with its extra otel: pip install 'corral[otel]'.",
        ) from error
    return OtlpSpans(settings.otlp_endpoint, version=__version__, frontend_id=frontend_id)
