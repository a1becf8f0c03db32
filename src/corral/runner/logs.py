"""The log of a runner process: structlog over the standard library, one JSON object a line on stderr.

Every line, ours or a library's, goes through one formatter that masks the secrets of all specifications in use.
Libraries log errors only: at lower levels they quote addresses and messages.
"""

from __future__ import annotations

import logging
from typing import TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from corral.runner.secret_masker import SecretMasker

_LIBRARIES = ("mcp", "httpx2", "httpcore2", "pydantic_ai", "aiohttp", "asyncio", "opentelemetry", "anyio")


def configure_runner_logging(masker: SecretMasker, stream: TextIO) -> None:
    """Set up logging for this process."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        _MaskingFormatter(
            masker,
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _drop_foreign_tracebacks,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


class _MaskingFormatter(structlog.stdlib.ProcessorFormatter):
    """Masks secrets in the finished line, after tracebacks became text."""

    def __init__(self, masker: SecretMasker, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]  # passed on as they are
        self._masker = masker

    def format(self, record: logging.LogRecord) -> str:
        return self._masker.mask(super().format(record))


def _drop_foreign_tracebacks(logger: WrappedLogger, method_name: str, event_dict: EventDict) -> EventDict:
    """Drop tracebacks of libraries: those of MCP quote the messages of servers."""
    del logger, method_name
    if not str(event_dict.get("logger", "")).startswith("corral"):
        event_dict.pop("exc_info", None)
    return event_dict
