"""The files on this machine that hold an API key: `admin.key` of `corral up` and the login. They follow a rotation.

Guarantee: commands that replace these keys run one after another, so the file holds the secret of the last rotation on
this machine. A secret that was replaced meanwhile is not written. Limit: a rotation on another machine or
on the page cannot write here; `corral keys recover` makes a key then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from corral.cli import render
from corral.cli.target import ClusterTarget, StoredLogin, get_credentials_path, list_known_targets, store_login
from corral.domain.errors import Conflict, CorralError, NotAuthenticated


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """Names a file on this machine that holds an API key, with the key's cluster and how to write another key there."""

    path: Path
    url: str
    write: Callable[[str], object]


@contextmanager
def hold_key_files() -> Iterator[bool]:
    """Keep other commands from replacing a stored key until the block ends; yields whether one had to be waited for.

    Take this before the files are read: the key in them may be replaced while this waits.
    """
    from corral.embedded.private_files import hold_file_lock

    has_waited = False

    def on_wait(path: Path) -> None:
        nonlocal has_waited
        has_waited = True
        render.print_notice(f"Waiting for another command that replaces the key in {path}.")

    with ExitStack() as stack:
        # In one order for all commands: two that wait for each other would never end.
        for target in sorted(list_known_targets(), key=_get_path):
            stack.enter_context(hold_file_lock(_get_path(target), on_wait))
        yield has_waited


async def find_key_files(key_id: str) -> list[KeyFile]:
    """Return the files on this machine that hold the secret of this key. Call this before the key is rotated."""
    return [_make_key_file(target) for target in list_known_targets() if await _has_key(target, key_id)]


async def check_still_works(file: KeyFile, secret: str) -> None:
    """Raise `Conflict` if the cluster of the file refuses this new secret: it was replaced since."""
    try:
        await _find_key_id(file.url, secret)
    except NotAuthenticated as error:
        raise Conflict(
            f"This key was rotated or revoked meanwhile; {file.path} was not changed.",
            hint="Their secret is the one that works. `corral keys recover` makes another admin key on the machine of "
            "`corral up`.",
            code="key_replaced",
        ) from error
    except CorralError:
        return  # The cluster did not answer, which says nothing about the secret.


async def _has_key(target: ClusterTarget, key_id: str) -> bool:
    """Return whether the target uses the key with this id, according to the cluster of the target."""
    if target.key is None:
        return False
    try:
        return await _find_key_id(target.url, target.key) == key_id
    except CorralError:
        return False


async def _find_key_id(url: str, secret: str) -> str | None:
    """Return the id of the key that this secret belongs to; raise `NotAuthenticated` if the cluster refuses it."""
    from corral.adapters.system import SystemClock, SystemIdGenerator
    from corral.client import CorralClient

    async with CorralClient(url, secret, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        return (await client.users.get_me()).key_id


def _get_path(target: ClusterTarget) -> Path:
    return target.key_file or get_credentials_path()


def _make_key_file(target: ClusterTarget) -> KeyFile:
    path, url = _get_path(target), target.url
    if target.key_file is None:
        return KeyFile(path=path, url=url, write=lambda key: store_login(StoredLogin(url=url, key=key)))

    def write(key: str) -> None:
        from corral.embedded.private_files import write_private

        write_private(path, f"{key}\n")

    return KeyFile(path=path, url=url, write=write)
