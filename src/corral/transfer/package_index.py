"""Chooses the package index: the one that this machine is configured for, and none of our own.

uv reads its own variables and files. A machine that was set up for pip only (a company's mirror, say) is understood
too: pip's index address is handed to uv unless uv has one. Extra indexes of pip are not: pip takes a name from any of
them, uv does not, and guessing here would let a stranger's package in.
"""

from __future__ import annotations

import configparser
import subprocess
from collections.abc import Mapping
from pathlib import Path

import uv

from corral.transfer.faults import SourceFailed
from corral.transfer.files import run_in_thread

# Variables that a program needs to run and to reach the network.
_PLAIN = frozenset(
    ("PATH", "HOME", "USER", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC", "XDG_CONFIG_HOME")
)
_PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"))
_UV_INDEX = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_NO_INDEX", "UV_CONFIG_FILE")


def make_plain_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for programs that use no index."""
    return {name: value for name, value in environment.items() if name in _PLAIN or name.upper() in _PROXIES}


def make_uv_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for uv when it resolves requirements."""
    given = make_plain_environment(environment)
    given |= {name: value for name, value in environment.items() if name.startswith("UV_")}
    if "SSL_CERT_FILE" not in given and environment.get("PIP_CERT"):
        given["SSL_CERT_FILE"] = environment["PIP_CERT"]
    if not any(given.get(name) for name in _UV_INDEX) and not _has_uv_file_index(environment):
        address = environment.get("PIP_INDEX_URL") or _read_pip_index(environment)
        if address:
            given["UV_DEFAULT_INDEX"] = address
    return given


async def list_indexes(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return addresses of the simple API, in the order in which uv uses them: the first with a project decides about
    it.

    uv itself says which they are, so that its files, its variables and its default mean here what they mean there.
    """
    return await run_in_thread(lambda _stop: _list_uv_indexes(environment))


def _list_uv_indexes(environment: Mapping[str, str]) -> tuple[str, ...]:
    command = [uv.find_uv_bin(), "pip", "compile", "-", "--emit-index-url", "--offline", "--no-header", "--quiet"]
    try:
        result = subprocess.run(  # noqa: S603 - uv, with arguments of our own
            command,
            input="",
            env=make_uv_environment(environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceFailed(
            "uv does not say which Python index this machine uses.",
            hint="Its settings may be broken: `uv pip compile - --emit-index-url` shows how.",
            code="source_unavailable",
        ) from error
    found = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line.startswith("--")]
    extra = [address for flag, address in found if flag == "--extra-index-url"]
    return (*extra, *(address for flag, address in found if flag == "--index-url"))


def _list_uv_files(environment: Mapping[str, str]) -> list[Path]:
    return [_get_config_home(environment) / "uv" / "uv.toml", Path("/etc/uv/uv.toml")]


def _get_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or "/")


def _get_config_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CONFIG_HOME") or _get_home(environment) / ".config")


def _has_uv_file_index(environment: Mapping[str, str]) -> bool:
    return any("index" in _read_text(file) for file in _list_uv_files(environment))


def _read_pip_index(environment: Mapping[str, str]) -> str:
    """Return pip's index address; the last file that sets one wins, as with pip."""
    home = _get_home(environment)
    files = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", _get_config_home(environment) / "pip" / "pip.conf"]
    if environment.get("PIP_CONFIG_FILE"):
        files.append(Path(environment["PIP_CONFIG_FILE"]))
    found = ""
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(_read_text(file))
        except configparser.Error:
            continue
        for section in ("global", "install", "download"):
            found = parser.get(section, "index-url", fallback=found)
    return found.strip()


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
