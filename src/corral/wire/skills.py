"""Bodies about skills of LLM agents, and about the git repositories that they come from."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AliasChoices, Field, StringConstraints, model_validator

from corral.wire.base import LenientModel, StrictModel

# Limits of what is read at all; the flows have tighter ones, with better sentences.
_Short = Annotated[str, StringConstraints(max_length=8000)]
_Text = Annotated[str, StringConstraints(max_length=512 * 1024)]
_FIELDS = ("description", "license", "compatibility", "allowed_tools", "metadata", "content")


class SkillIn(StrictModel):
    """Body that creates or replaces a skill: its fields, or its whole `SKILL.md` as `document`."""

    name: _Short = Field(
        default="",
        description="Up to 64 lower-case letters, digits and single hyphens. Another one renames the skill.",
        examples=["pdf-forms"],
    )
    description: _Short = Field(
        default="",
        description="What the skill does and when to use it; agents choose skills by it.",
        examples=["Fills in PDF forms. Use it when a task mentions a form."],
    )
    license: _Short = ""
    compatibility: _Short = Field(default="", description="What the skill needs, such as programs.")
    allowed_tools: _Short | list[_Short] = Field(
        default="",
        description="Names of tools that the skill uses, divided by spaces.",
        validation_alias=AliasChoices("allowed_tools", "allowed-tools"),
    )
    metadata: Annotated[dict[str, _Short], Field(max_length=100)] = Field(default_factory=dict)
    content: _Text = Field(default="", description="The instructions, in Markdown.")
    document: _Text | None = Field(
        default=None, description="The whole SKILL.md: front matter and instructions, in place of the other fields."
    )
    shared: bool | None = Field(
        default=None, description="Every user's agents may use it. Set by admins; absent: as before."
    )

    @model_validator(mode="after")
    def _require_one_form(self) -> SkillIn:
        if self.document is not None and any(getattr(self, name) for name in _FIELDS):
            raise ValueError("send `document`, or the single fields, and not both")
        return self


class SkillFileOut(LenientModel):
    """One file of a skill beside its `SKILL.md`."""

    path: str
    size_bytes: int
    sha256: str


class SkillOut(LenientModel):
    """A skill as `GET /api/agents/skills` lists it, without its text and the names of its files."""

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    metadata: dict[str, str] = Field(default_factory=dict)
    source: str = Field(description="inline: written here; git: from a repository.")
    repo_id: str | None = None
    repo_url: str = ""
    commit: str = Field(default="", description="The commit of the repository that it is from.")
    read_only: bool = Field(default=False, description="It is changed in its repository alone.")
    shared: bool = False
    owner: str = Field(description="user:… or key:…")
    owner_name: str = ""
    is_own: bool = True
    revision: int = 1
    file_count: int = 0
    size_bytes: int = Field(default=0, description="With its files.")
    created_at: datetime
    created_by: str = ""
    updated_at: datetime


class SkillDetailOut(SkillOut):
    """A skill with its text and the names of its files, as `GET /api/agents/skills/{name}` shows it."""

    content: str = Field(description="The instructions, without the front matter.")
    document: str = Field(description="The whole SKILL.md.")
    sha256: str = Field(description="Of the document.")
    files: list[SkillFileOut] = Field(default_factory=list)


class SkillImportOut(LenientModel):
    """Response of `POST /api/agents/skills/import`: the skills that the archive had."""

    items: list[SkillDetailOut]


class SkillLimitsOut(LenientModel):
    """Response of `GET /api/agents/skills/config`: what skills may have, and what an owner may keep."""

    document_bytes_max: int = Field(description="Of a SKILL.md.")
    file_bytes_max: int
    files_max: int
    skill_bytes_max: int
    archive_bytes_max: int
    skills_max: int = Field(description="Skills of one owner.")
    bytes_max: int = Field(description="Of all skills of one owner.")
    repos_max: int = Field(description="Repositories of one owner.")
    formats: list[str] = Field(description="Of archives that can be imported.")


class SkillRepoIn(StrictModel):
    """Body that adds or changes a git repository of skills."""

    url: _Short = Field(
        description="http://, https:// or git@host:path, which is read over HTTPS.",
        examples=["https://git.example/team/skills.git"],
    )
    branch: _Short = Field(default="", description="Empty: the one that the repository calls its own.")
    shared: bool = Field(default=False, description="Every user's agents may use its skills. Set by admins.")
    secret: _Short = Field(
        default="",
        description="For a private repository: a reference to the secret with its token, as in secret:NAME.",
        examples=["secret:git-token"],
    )
    username: _Short = Field(
        default="", description="The user name beside the secret. Empty: git, which most hosts take beside a token."
    )
    sync_interval: float | Annotated[str, StringConstraints(max_length=20)] | None = Field(
        default=None,
        description="How often it is synced by itself: minutes, or a duration such as 1h. Absent: it is not.",
    )


class SkillRepoToggleIn(StrictModel):
    """Body of `POST /api/agents/git-repos/{id}/toggle`."""

    enabled: bool | None = Field(default=None, description="Absent: the other state.")


class SkillRepoOut(LenientModel):
    """A git repository that skills come from."""

    id: str
    url: str
    branch: str = ""
    enabled: bool = True
    shared: bool = False
    commit: str = Field(default="", description="The commit whose skills are stored; empty before the first sync.")
    synced_at: datetime | None = None
    problem: str = Field(default="", description="What kept the last sync, or a skill of it, from being stored.")
    secret: str = Field(default="", description="The reference to the secret that a worker signs in with.")
    username: str = ""
    sync_interval: float | None = Field(default=None, description="Minutes between syncs; null: no sync by itself.")
    next_sync_at: datetime | None = None
    run_id: str = Field(default="", description="The run of the last sync.")
    skills: int = Field(default=0, description="How many of its skills are stored.")
    owner: str
    owner_name: str = ""
    created_at: datetime
    updated_at: datetime
