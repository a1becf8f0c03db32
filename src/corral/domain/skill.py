"""Skills: instructions with files that agents read when a task needs them, and git repositories that skills come from.

skill           a `SKILL.md` (a front matter with name and description, and a body) and files beside it
repository      a git repository of an owner; a sync brings its skills to the state of one commit
sync            the run that does so, of the kind `skill_sync`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType

from corral.domain.access import Owner

SkillId = NewType("SkillId", str)
SkillRepoId = NewType("SkillRepoId", str)

# The file of a skill that holds its front matter and its body.
DOCUMENT_NAME = "SKILL.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """Names one file of a skill, without its bytes. The path is relative to the folder of the skill."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillContent:
    """Everything that a skill consists of: its front matter, its body, its `SKILL.md` as text, and its files."""

    name: str
    description: str
    # All fields of the front matter, those that Corral does not know included.
    front_matter: Mapping[str, Any]
    body: str
    document: str
    # By path, without `SKILL.md`.
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """Describes a skill as stored in PostgreSQL: its owner, its `SKILL.md` and the names of its files."""

    id: SkillId
    owner: Owner
    # The name of the owner's user or key.
    owner_name: str
    name: str
    description: str
    front_matter: Mapping[str, Any]
    # The text of `SKILL.md`; empty in lists.
    document: str
    # Of `SKILL.md`.
    sha256: str
    document_bytes: int
    # Every user's agents may use it.
    is_shared: bool
    # The repository and commit that the skill came from; None: a person wrote it.
    repo_id: SkillRepoId | None
    repo_url: str
    commit: str
    revision: int
    created_at: datetime
    created_by: str
    updated_at: datetime
    # Without `SKILL.md`, by path; empty in lists.
    files: tuple[SkillFile, ...] = ()
    # How many there are, and how large they are together: also in lists.
    file_count: int = 0
    files_bytes: int = 0

    @property
    def is_read_only(self) -> bool:
        return self.repo_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRepo:
    """Describes a git repository whose skills are kept in step with a branch, as stored in PostgreSQL."""

    id: SkillRepoId
    owner: Owner
    owner_name: str
    # As its owner wrote it.
    url: str
    # Empty: the branch that the repository calls its own.
    branch: str
    is_enabled: bool
    is_shared: bool
    # How a worker signs in: a user name, and a reference to a secret of the owner; empty: the repository is public.
    username: str
    secret: str
    # How often it is synced by itself, and when next; None: when a person starts a sync.
    sync_interval_s: float | None
    next_sync_at: datetime | None
    # The commit whose skills are stored; empty before the first sync.
    commit: str
    synced_at: datetime | None
    # What kept the last sync, or a skill of it, from being stored; empty if nothing did.
    problem: str
    # The run of the last sync.
    run_id: str
    skill_count: int
    created_at: datetime
    created_by: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUse:
    """Says which skills an agent offers in its turns, and how: names in the prompt, whole bodies, a tool, or both."""

    is_enabled: bool = False
    mode: str = "tools"
    # Empty: all that its owner may use.
    selected: tuple[str, ...] = ()
    # Stands before the list in the prompt; empty: a default.
    prompt: str = ""

    @property
    def has_tool(self) -> bool:
        return self.mode in ("tools", "both")

    @property
    def has_bodies(self) -> bool:
        return self.mode in ("prompt", "both")
