"""Settings of the processes: one typed model per process, with the same name as flag, variable and key in the file.

Each name is imported at its first use, so that a command that lists nodes does not import the settings of a frontend.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.app.settings.base import ClientSettings, ProcessSettings
    from corral.app.settings.display import DisplayedSetting, redact_settings
    from corral.app.settings.loader import LoadedSettings, SettingOrigin, SettingProblem, is_configured, load_settings
    from corral.app.settings.models import (
        ALL_MODELS,
        FrontendSettings,
        LogFormat,
        LogLevel,
        UpSettings,
        WorkerSettings,
    )
    from corral.app.settings.names import SettingDoc, describe_all_settings, describe_settings, list_known_variables
    from corral.app.settings.values import parse_folders, parse_registry_credentials

__all__ = [
    "ALL_MODELS",
    "ClientSettings",
    "DisplayedSetting",
    "FrontendSettings",
    "LoadedSettings",
    "LogFormat",
    "LogLevel",
    "ProcessSettings",
    "SettingDoc",
    "SettingOrigin",
    "SettingProblem",
    "UpSettings",
    "WorkerSettings",
    "describe_all_settings",
    "describe_settings",
    "is_configured",
    "list_known_variables",
    "load_settings",
    "parse_folders",
    "parse_registry_credentials",
    "redact_settings",
]

# The modules that import quickly come first: a name is looked up in each until one has it.
_MODULES = ("base", "loader", "names", "values", "models", "display")


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _MODULES:
            found = getattr(import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
