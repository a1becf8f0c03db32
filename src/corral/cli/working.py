"""Tasks of a command, and how one that crashes is told.

Guarantee: a traceback on a terminal has no values of variables in it. Without being told otherwise, structlog shows
them, and among those of a command is the key that it was given.
"""

from __future__ import annotations

import sys

import structlog

from corral.runtime.tasks import Tasks


def own_tasks(owner: str) -> Tasks:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    return Tasks(owner)
