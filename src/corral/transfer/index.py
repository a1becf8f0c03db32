"""Which package index is asked: the one that this machine has been told of, and none of our own.

uv reads its own variables and files. A machine that was set up for pip only (a company's mirror, say) is understood
too: pip's index address is handed to uv unless uv has one. Extra indexes of pip are not: pip takes a name from any of
them, uv does not, and guessing here would let a stranger's package in.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

# What a program needs to run and to reach the network.
_PLAIN = frozenset(
    ("PATH", "HOME", "USER", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC", "XDG_CONFIG_HOME")
)
_PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"))
_UV_INDEX = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_NO_INDEX", "UV_CONFIG_FILE")


def plain_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """For programs that ask no index."""
    return {name: value for name, value in environment.items() if name in _PLAIN or name.upper() in _PROXIES}


def uv_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """For uv when it resolves."""
    given = plain_environment(environment)
    given |= {name: value for name, value in environment.items() if name.startswith("UV_")}
    if "SSL_CERT_FILE" not in given and environment.get("PIP_CERT"):
        given["SSL_CERT_FILE"] = environment["PIP_CERT"]
    if not any(given.get(name) for name in _UV_INDEX) and not _uv_files_name_one(environment):
        address = environment.get("PIP_INDEX_URL") or _pip_index(environment)
        if address:
            given["UV_DEFAULT_INDEX"] = address
    return given


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or "/")


def _config_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CONFIG_HOME") or _home(environment) / ".config")


def _uv_files_name_one(environment: Mapping[str, str]) -> bool:
    files = (_config_home(environment) / "uv" / "uv.toml", Path("/etc/uv/uv.toml"))
    return any("index" in _text(file) for file in files)


def _pip_index(environment: Mapping[str, str]) -> str:
    """The last file that says something wins, as with pip."""
    home = _home(environment)
    files = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", _config_home(environment) / "pip" / "pip.conf"]
    if environment.get("PIP_CONFIG_FILE"):
        files.append(Path(environment["PIP_CONFIG_FILE"]))
    found = ""
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(_text(file))
        except configparser.Error:
            continue
        for section in ("global", "install", "download"):
            found = parser.get(section, "index-url", fallback=found)
    return found.strip()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
