"""When an assignment is satisfied by what its node reports.

installed with its generation, or a newer one     yes
removed with its generation, or a newer one       yes, if absence is what was wanted
there, with the wanted version                    only for `present`: having it is all that was asked
"""

from __future__ import annotations

from collections.abc import Mapping

from corral.domain.backend import Assignment, Desired, InstalledBackend


def is_satisfied(assignment: Assignment, installed: Mapping[str, InstalledBackend], removed: Mapping[str, int]) -> bool:
    """`installed` by concrete name; `removed` has the generations of removals."""
    if assignment.desired is Desired.ABSENT:
        return assignment.backend not in installed and removed.get(assignment.backend, -1) >= assignment.generation
    there = installed.get(assignment.backend)
    if there is None:
        return False
    if there.generation >= assignment.generation:
        return True
    return assignment.desired is Desired.PRESENT and _is_wanted_version(assignment, there)


def _is_wanted_version(assignment: Assignment, there: InstalledBackend) -> bool:
    wanted = (assignment.build or {}).get("version") or ""
    return wanted in ("", there.version)
