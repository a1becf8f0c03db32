"""Decides as whom programs of MCP servers run on this machine, and what they may use.

Guarantee: a worker that is root never runs such a program as root, unless its settings name root. Limit: a worker that
is not root cannot switch; its programs can read what it can read, and the log says so.
"""

from __future__ import annotations

import os
import pwd

import structlog

from corral.domain.errors import InvalidRequest
from corral.wire.runner_protocol import ProgramLimits

log = structlog.get_logger(__name__)

# The first that exists: an account that an admin has made for this, or the one that owns nothing.
DEFAULT_USERS = ("corral-run", "nobody")
# An account of its own has no other processes that count.
OWN_USER_PROCESSES_MAX = 512


def find_program_limits(user: str | None, *, memory_bytes: int, file_bytes: int) -> ProgramLimits:
    """Return the limits for programs. Raises `InvalidRequest` if the named user does not exist or cannot be used."""
    limits = ProgramLimits(memory_bytes=memory_bytes, file_bytes=file_bytes)
    account = _find_account(user)
    if account is None or account.pw_uid == os.geteuid():
        log.warning(
            "programs of MCP servers run as the user of the worker and can read what it can read",
            hint="Run the worker as root to have them run as another user, or give it an account of its own.",
        )
        return limits
    log.info("programs of MCP servers run as another user", user=account.pw_name)
    return limits.model_copy(
        update={
            "user": account.pw_name,
            "uid": account.pw_uid,
            "gid": account.pw_gid,
            "processes": OWN_USER_PROCESSES_MAX,
        }
    )


def _find_account(user: str | None) -> pwd.struct_passwd | None:
    """Return the account to switch to; None if this process stays what it is."""
    is_root = os.geteuid() == 0
    if user is None:
        found = [_read_account(name) for name in DEFAULT_USERS] if is_root else []
        return next((account for account in found if account is not None), None)
    account = _read_account(user)
    if account is None:
        raise InvalidRequest(
            f"There is no user {user}.", hint="Create it, or change run_user.", code="run_user_unknown"
        )
    if not is_root and account.pw_uid != os.geteuid():
        raise InvalidRequest(
            f"A worker that is not root cannot run programs as {user}.",
            hint="Run the worker as root, or remove run_user.",
            code="run_user_refused",
        )
    return account


def _read_account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
