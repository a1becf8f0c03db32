"""Settings: one typed model per process, read once, named the same as flag, variable and key in the file.

Each name is imported when it is first used: a command that lists nodes does not wait for the settings of a frontend.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.app.settings.base import ProcessSettings
    from corral.app.settings.client import ClientSettings
    from corral.app.settings.loading import Loaded, Origin, Problem, is_set_up, load
    from corral.app.settings.models import (
        ALL_MODELS,
        FrontendSettings,
        LogFormat,
        LogLevel,
        UpSettings,
        WorkerSettings,
    )
    from corral.app.settings.names import SettingDoc, describe, document, known_variables
    from corral.app.settings.showing import ShownSetting, redacted
    from corral.app.settings.values import duration_text, parse_duration_s, parse_folders, parse_registry_credentials

__all__ = [
    "ALL_MODELS",
    "ClientSettings",
    "FrontendSettings",
    "Loaded",
    "LogFormat",
    "LogLevel",
    "Origin",
    "Problem",
    "ProcessSettings",
    "SettingDoc",
    "ShownSetting",
    "UpSettings",
    "WorkerSettings",
    "describe",
    "document",
    "duration_text",
    "is_set_up",
    "known_variables",
    "load",
    "parse_duration_s",
    "parse_folders",
    "parse_registry_credentials",
    "redacted",
]

# The light modules come first: a name is looked for in each of them until one has it.
_MODULES = ("client", "loading", "base", "names", "values", "models", "showing")


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _MODULES:
            found = getattr(import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
