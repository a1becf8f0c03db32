"""Logging: structlog over the standard library, text for people or JSON for collectors, on stderr.

Every line, ours or a library's, goes through one formatter, and secrets are masked there, after tracebacks became
text: no logger can go around it. Libraries that have handlers of their own (uvicorn) are made to use this one.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from corral.app.redaction import redact
from corral.app.settings.models import LogFormat, LogLevel
from corral.insight.access_log import LOGGER as ACCESS_LOGGER
from corral.insight.access_log import AccessLogStyle

# These loggers are too verbose at our level; their warnings are still shown.
_QUIET_LOGGERS = ("aiohttp.access", "uvicorn.access", "asyncio", "nats", "alembic", "mcp")
# At most warnings of these: the first logs every row it handles, and our own lines replace those of the second.
_MUTED_LOGGERS = ("sqlalchemy", "uvicorn.error")
_LOGGERS_WITH_HANDLERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "sqlalchemy", "asyncio", "alembic")


def configure_logging(
    log_format: LogFormat | None = None,
    level: LogLevel = LogLevel.INFO,
    *,
    stream: TextIO | None = None,
    frontend: str | None = None,
) -> None:
    """Set up logging for this process, replacing an earlier setup. `frontend` is added to every line, because several
    processes may write to the same output."""
    output = sys.stderr if stream is None else stream
    is_terminal = output.isatty()
    chosen = log_format or (LogFormat.TEXT if is_terminal else LogFormat.JSON)
    handler = logging.StreamHandler(output)
    has_colours = is_terminal and not os.environ.get("NO_COLOR")
    handler.setFormatter(_make_formatter(chosen, has_colours=has_colours, frontend=frontend))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    _route_libraries(level)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_make_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # Tests configure several times in one process; a cached logger would keep the first set-up.
        cache_logger_on_first_use=False,
    )


def set_log_level(level: LogLevel) -> None:
    """Change the level of this process. `configure_logging` must have been called before."""
    logging.getLogger().setLevel(level.upper())
    _route_libraries(level)


def mask_secrets(logger: WrappedLogger, method_name: str, event_dict: EventDict) -> EventDict:
    """Mask secrets in an event. The last processor before the line is written."""
    del logger, method_name
    return {key: redact(value, key) for key, value in event_dict.items()}


def _make_shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _make_formatter(log_format: LogFormat, *, has_colours: bool, frontend: str | None) -> logging.Formatter:
    renderer: Processor
    if log_format is LogFormat.JSON:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=has_colours, pad_event_to=36, exception_formatter=structlog.dev.plain_traceback
        )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_make_shared_processors(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _make_frontend_processor(frontend),
            # Before masking: the text of a traceback may quote a secret.
            structlog.processors.format_exc_info,
            mask_secrets,
            renderer,
        ],
    )


def _make_frontend_processor(frontend: str | None) -> Processor:
    def add_frontend(logger: WrappedLogger, method_name: str, event_dict: EventDict) -> EventDict:
        del logger, method_name
        return event_dict if frontend is None else {"frontend": frontend, **event_dict}

    return add_frontend


def _route_libraries(level: LogLevel) -> None:
    for name in _LOGGERS_WITH_HANDLERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    quiet = logging.NOTSET if level is LogLevel.DEBUG else logging.WARNING
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(quiet)
    for name in _MUTED_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


def configure_access_log(style: AccessLogStyle, *, stream: TextIO | None = None) -> None:
    """Configure where the access log is written: raw lines on the same output, bypassing the formatter, which would
    cost more than many requests do. The lines contain no secrets (`insight/access_log.py`)."""
    logger = logging.getLogger(ACCESS_LOGGER)
    logger.handlers.clear()
    logger.propagate = False
    if style is AccessLogStyle.OFF:
        return
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
