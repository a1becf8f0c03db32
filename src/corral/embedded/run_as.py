"""PostgreSQL refuses to run as root; this finds a way to run it all the same.

1. An ordinary user: nothing is needed.
2. Root, with user namespaces: the server sees another uid, its files still belong to root. Nothing is made public.
3. Root without them (some containers): the server really runs as `nobody`. Its data changes owner, the folders above
   it are opened for passing through (not for listing), and the binaries are copied beside the data if `nobody`
   cannot reach them where they are.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from corral.embedded.errors import StartFailed
from corral.embedded.home import Home

PROBE_LIMIT_S = 10.0
_PASS_THROUGH = 0o711


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAs:
    """How to start PostgreSQL's programs, and where they are."""

    bin_folder: Path
    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def command(self, program: str, *arguments: str) -> tuple[str, ...]:
        return (*self.prefix, str(self.bin_folder / program), *arguments)


def choose_run_as(bin_folder: Path, home: Home, *, unshare: str = "unshare") -> RunAs:
    """Blocks for some milliseconds: run it in a thread."""
    plain = RunAs(bin_folder=bin_folder)
    if os.geteuid() != 0:
        return plain
    person = _unprivileged()
    if person is None:
        raise _impossible("this system knows no user but root")
    mapped = RunAs(
        bin_folder=bin_folder,
        prefix=(unshare, "-U", f"--map-user={person.pw_uid}", f"--map-group={person.pw_gid}"),
    )
    if _works(mapped):
        return mapped
    return _as_person(bin_folder, home, person)


def _as_person(bin_folder: Path, home: Home, person: pwd.struct_passwd) -> RunAs:
    blocked = [folder for folder in home.root.parents if not folder.stat().st_mode & stat.S_IXOTH]
    if blocked:
        raise _impossible(f"user namespaces are switched off, and {person.pw_name} may not pass through {blocked[0]}")
    for folder in (home.root, home.postgres):
        folder.chmod(_PASS_THROUGH)
    chosen = RunAs(bin_folder=bin_folder, uid=person.pw_uid, gid=person.pw_gid)
    if not _works(chosen):
        chosen = RunAs(bin_folder=_copy_binaries(bin_folder, home), uid=person.pw_uid, gid=person.pw_gid)
    if not _works(chosen):
        raise _impossible(f"user namespaces are switched off, and {person.pw_name} cannot run the binaries")
    return chosen


def give_to(path: Path, run_as: RunAs) -> None:
    """Make `path` and what is in it belong to the user that PostgreSQL runs as."""
    uid = os.geteuid() if run_as.uid is None else run_as.uid
    gid = os.getegid() if run_as.gid is None else run_as.gid
    if path.stat().st_uid == uid:
        return
    for one in (path, *path.rglob("*")):
        os.chown(one, uid, gid, follow_symlinks=False)


def _unprivileged() -> pwd.struct_passwd | None:
    """`nobody`, or else any user but root: initdb wants one that has a name."""
    people = {person.pw_name: person for person in pwd.getpwall() if person.pw_uid != 0}
    return people.get("nobody") or next(iter(people.values()), None)


def _works(run_as: RunAs) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            run_as.command("postgres", "-V"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_LIMIT_S,
            user=run_as.uid,
            group=run_as.gid,
            extra_groups=None if run_as.uid is None else [],
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _copy_binaries(bin_folder: Path, home: Home) -> Path:
    """The installation and the libraries it finds by relative path (`<package>/<installation>/bin`)."""
    package = bin_folder.parent.parent
    copy = home.postgres / "binaries"
    shutil.rmtree(copy, ignore_errors=True)
    installation = copy / package.name / bin_folder.parent.name
    shutil.copytree(bin_folder.parent, installation, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name(package.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    return installation / "bin"


def _impossible(why: str) -> StartFailed:
    return StartFailed(
        f"PostgreSQL does not run as root, and no way around that was found: {why}.",
        hint=(
            "Run `corral up` as an ordinary user, or with CORRAL_HOME=/var/lib/corral, "
            "or give it your own server with --database-url."
        ),
    )
