"""Settings: one typed model per process, read once, named the same as flag, variable and key in the file."""

from corral.app.settings.loading import Loaded, Origin, Problem, is_set_up, load
from corral.app.settings.models import (
    ALL_MODELS,
    ClientSettings,
    FrontendSettings,
    LogFormat,
    LogLevel,
    ProcessSettings,
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
