"""Decides about skills: names, files and addresses that are valid, which skills a turn is offered, and what its model
is shown of them.

Names and descriptions follow the specification of Agent Skills. A turn is offered skills of its agent's owner and
shared ones, the owner's own before a shared one of the same name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from corral.domain.errors import InvalidRequest, TooLarge, Unprocessable
from corral.domain.secret import SecretScope
from corral.domain.skill import DOCUMENT_NAME, Skill, SkillContent, SkillUse
from corral.policy.addresses import holds_secret, is_private_address
from corral.policy.secret_references import parse_secret_reference
from corral.policy.storable_values import check_storable

# Of the specification of Agent Skills.
NAME_MAX = 64
DESCRIPTION_MAX = 1024
COMPATIBILITY_MAX = 500
LICENSE_MAX = 500
ALLOWED_TOOLS_MAX = 4000
# The last parts of routes below /api/agents/skills, which a skill of that name would hide.
RESERVED_NAMES = frozenset({"config", "export", "import", "search"})
# Instructions that a model can read; the body of a request to the API has at most 1 MiB.
DOCUMENT_BYTES_MAX = 256 * 1024
# A front matter is parsed on the event loop.
FRONT_MATTER_BYTES_MAX = 16 * 1024
# Files are rows of the registry, and a model reads texts of them: larger ones belong into a library of models or data.
FILE_BYTES_MAX = 1024 * 1024
FILES_MAX = 100
SKILL_BYTES_MAX = 10 * 1024 * 1024
# The paths of all files of a skill are in one result of the tool.
PATH_BYTES_MAX = 120
# In an archive, where folders stand before the skill.
ARCHIVE_PATH_BYTES_MAX = 1024
# More than one person keeps; what all of them together take of the registry.
SKILLS_OF_OWNER_MAX = 500
OWNER_BYTES_MAX = 256 * 1024 * 1024
REPOS_OF_OWNER_MAX = 50
# Of one repository. All of it is delivered by one call, whose body is bounded.
REPO_SKILLS_MAX = 100
URL_MAX = 500
USERNAME_MAX = 100
# Hosts take any name beside a token, but not an empty one.
DEFAULT_USERNAME = "git"
# A sync is a run of its owner on an agent node.
SYNC_INTERVAL_MIN_S, SYNC_INTERVAL_MAX_S = 300.0, 31 * 86400.0
BRANCH_MAX = 200
# Names and descriptions of so many are in a prompt; more than any model chooses from.
OFFERED_MAX = 100
# Of bodies in a prompt, where the agent wants them there.
PROMPT_BYTES_MAX = 128 * 1024
PROBLEM_MAX = 2000
CODE = "bad_skill"
DEFAULT_PROMPT = (
    "You have skills: instructions for certain tasks. When a task matches the description of one, read it with the "
    "tool request_skill before you begin, and follow it."
)
BODIES_PROMPT = "You have skills: instructions for certain tasks. When a task matches one, follow it."
_FILES_PROMPT = "Read files that a skill names with the tool request_skill."
_KNOWN_FIELDS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_GIT_ADDRESS = re.compile(r"git@(?P<host>[A-Za-z0-9.-]+):(?P<path>[^:/\s][^:\s]*)", re.ASCII)
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*", re.ASCII)


def make_error(sentence: str, hint: str | None = None, *, code: str = CODE) -> InvalidRequest:
    return InvalidRequest(sentence, hint=hint, code=code)


# --- names and front matter ---


def normalise_name(name: str) -> str:
    """Return the name of a skill as it is stored. Raises `InvalidRequest` if a skill cannot have it."""
    normal = unicodedata.normalize("NFKC", name.strip())
    problem = _find_name_problem(normal)
    if problem is not None:
        raise make_error(
            f"{name[:80]!r} is not a name for a skill: {problem}.",
            f"Up to {NAME_MAX} lower-case letters, digits and single hyphens, such as pdf-forms.",
            code="bad_skill_name",
        )
    return normal


def _find_name_problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > NAME_MAX:
        return f"it is longer than {NAME_MAX} characters"
    if name != name.lower():
        return "it has upper-case letters"
    if not all(letter.isalnum() or letter == "-" for letter in name):
        return "it has other characters than letters, digits and hyphens"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        return "it begins or ends with a hyphen, or has two in a row"
    return "it is a word of the API" if name in RESERVED_NAMES else None


def check_front_matter(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the front matter of a skill as it is stored: known fields as texts, in their order, others behind them as
    they are. Raises `InvalidRequest` for the first thing that is wrong."""
    check_storable(dict(fields))
    found: dict[str, Any] = {
        "name": normalise_name(_read_text(fields, "name", "")),
        "description": _read_text(fields, "description", "").strip(),
    }
    description = found["description"]
    if not description:
        raise make_error("description: a skill needs one: agents choose skills by it.")
    limits = {"description": DESCRIPTION_MAX, "license": LICENSE_MAX, "compatibility": COMPATIBILITY_MAX}
    for name in ("license", "compatibility"):
        text = _read_text(fields, name, "").strip()
        if text:
            found[name] = text
    for name, limit in limits.items():
        if len(found.get(name, "")) > limit:
            raise make_error(f"{name}: longer than {limit} characters.")
    tools = fields.get("allowed-tools")
    listed = (
        " ".join(str(tool) for tool in tools) if isinstance(tools, list) else _read_text(fields, "allowed-tools", "")
    )
    if listed.strip():
        if len(listed) > ALLOWED_TOOLS_MAX:
            raise make_error(f"allowed-tools: longer than {ALLOWED_TOOLS_MAX} characters.")
        found["allowed-tools"] = listed.strip()
    metadata = fields.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise make_error("metadata: not a mapping of names to texts.")
    if metadata:
        found["metadata"] = {str(key): _to_text(value) for key, value in metadata.items()}
    return found | list_other_fields(fields)


def list_other_fields(front_matter: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a front matter that Corral does not know."""
    return {key: value for key, value in front_matter.items() if key not in _KNOWN_FIELDS}


def _read_text(fields: Mapping[str, Any], name: str, default: str) -> str:
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, (Mapping, list)):
        raise make_error(f"{name}: not a text.")
    return _to_text(value)


def _to_text(value: object) -> str:
    """Return a value of YAML as its author wrote it: `true`, and not Python's `True`."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


# --- files ---


def normalise_path(path: str, bytes_max: int = PATH_BYTES_MAX) -> str:
    """Return the path of a file of a skill as it is stored. Raises `InvalidRequest` for one that leads elsewhere or is
    longer."""
    parts = PurePosixPath(path).parts
    is_inside = bool(parts) and not path.startswith("/") and ".." not in parts
    if not is_inside or "\\" in path or _CONTROL.search(path) or (len(path) > 1 and path[1] == ":"):
        raise make_error(
            f"{path[:80]!r} leads out of the folder of the skill.",
            "A path is relative, such as references/fields.md, without .. and backslashes.",
            code="bad_path",
        )
    normal = unicodedata.normalize("NFC", str(PurePosixPath(path)))
    check_storable(normal)
    if len(normal.encode()) > bytes_max:
        raise make_error(f"The path {normal[:60]!r}… is longer than {bytes_max} bytes.", code="bad_path")
    return normal


def normalise_file_path(path: str) -> str:
    """Return the path of a file beside `SKILL.md`, which is changed with the skill itself."""
    normal = normalise_path(path)
    if normal.casefold() == DOCUMENT_NAME.casefold():
        raise make_error(
            f"{DOCUMENT_NAME} is the skill itself.", "Change it with PUT /api/agents/skills/{name}.", code="bad_path"
        )
    return normal


def check_file_size(path: str, size_bytes: int) -> None:
    if size_bytes > FILE_BYTES_MAX:
        raise TooLarge(
            f"The file {path} is larger than {FILE_BYTES_MAX >> 20} MiB.",
            hint="Keep large files elsewhere, and let the skill name their address.",
            code="skill_too_large",
        )


def check_files(sizes: Mapping[str, int], document_bytes: int) -> None:
    """Raise unless the files of a skill, by path, are few, small and can lie beside each other on any disk."""
    if document_bytes > DOCUMENT_BYTES_MAX:
        raise TooLarge(
            f"{DOCUMENT_NAME} is larger than {DOCUMENT_BYTES_MAX >> 10} KiB.",
            hint="Move parts of it into files of the skill, and name them in it.",
            code="skill_too_large",
        )
    if len(sizes) > FILES_MAX:
        raise TooLarge(f"A skill has at most {FILES_MAX} files.", code="skill_too_large")
    for path, size_bytes in sizes.items():
        check_file_size(path, size_bytes)
    if sum(sizes.values()) + document_bytes > SKILL_BYTES_MAX:
        raise TooLarge(f"The skill is larger than {SKILL_BYTES_MAX >> 20} MiB.", code="skill_too_large")
    rival = find_rival(sizes)
    if rival is not None:
        raise make_error(
            f"{rival[0]} and {rival[1]} cannot both be files of a skill.",
            "Two names that differ in case only, or a file and a folder of one name, do not fit on every disk.",
            code="bad_path",
        )


def find_rival(paths: Collection[str]) -> tuple[str, str] | None:
    """Return two paths that cannot both exist on every disk: equal but for case, or one is a folder of the other."""
    known: dict[str, str] = {}
    for path in sorted(paths):
        if path.casefold() in known:
            return known[path.casefold()], path
        known[path.casefold()] = path
    for path in paths:
        for folder in PurePosixPath(path).parents:
            if str(folder).casefold() in known:
                return known[str(folder).casefold()], path
    return None


def check_content(content: SkillContent) -> None:
    """Raise `InvalidRequest` unless a skill with its files is within the limits."""
    check_files({path: len(data) for path, data in content.files.items()}, len(content.document.encode()))


# --- repositories ---


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoAddress:
    """Address of a git repository that holds skills: as its owner wrote it, and the URL that is fetched."""

    written: str
    fetched: str
    host: str


def parse_repo_address(text: str, *, allows_private: bool) -> RepoAddress:
    """Return the address of a repository: http(s)://…, or git@host:path, which is read over HTTPS. The error repeats
    nothing of a secret."""
    written = text.strip()
    found = _GIT_ADDRESS.fullmatch(written)
    fetched = f"https://{found['host']}/{found['path']}" if found else written
    try:
        parts = urlsplit(fetched)
        host, is_valid = parts.hostname or "", parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        host, is_valid = "", False
    is_clean = written.isprintable() and " " not in written and not has_odd_parts(fetched)
    if not is_valid or not host or not is_clean or len(written) > URL_MAX:
        raise make_error(
            "This is not the address of a git repository.",
            "Write https://host/owner/repository.git or git@host:owner/repository.git.",
            code="bad_uri",
        )
    if holds_secret(fetched):
        raise make_error(
            "The address of a repository holds a secret.",
            "Store it (corral secrets set NAME), and name it beside the address: secret:NAME.",
            code="secret_in_address",
        )
    if not allows_private and is_private_address(host):
        raise Unprocessable(
            "The address is in a private network, or is that of this machine itself.",
            code="private_address",
            hint="Set CORRAL_ALLOW_PRIVATE_SOURCES on the frontends if your repositories are in one.",
        )
    return RepoAddress(written=written, fetched=fetched, host=host)


def check_repo_secret(secret: str, username: str, address: RepoAddress, *, allows_private: bool) -> tuple[str, str]:
    """Return the reference to a repository's secret and the user name beside it as they are stored, both empty for a
    public repository. Raises `InvalidRequest` for the first thing that is wrong; no error repeats the text, which may
    be the secret itself."""
    if not secret:
        if username:
            raise make_error("username: there is no secret beside it.", "Add `secret`, or leave `username` out.")
        return "", ""
    reference = parse_secret_reference(secret)
    if reference.scope is not SecretScope.OWN:
        raise make_error(
            "secret: a repository takes a secret of its owner only.",
            "Store it as your own: corral secrets set NAME",
            code="cluster_secret_refused",
        )
    name = username or DEFAULT_USERNAME
    if len(name) > USERNAME_MAX or not name.isprintable() or ":" in name or not name.isascii():
        raise make_error(f"username: not 1 to {USERNAME_MAX} ASCII characters without a colon.", code="bad_username")
    if not allows_private and not address.fetched.startswith("https://"):
        raise make_error(
            "A secret is sent over HTTPS only.", "Write the address with https://.", code="secret_without_https"
        )
    return str(reference), name


def check_sync_interval(seconds: float | None) -> float | None:
    if seconds is not None and not SYNC_INTERVAL_MIN_S <= seconds <= SYNC_INTERVAL_MAX_S:
        raise make_error("The interval of the syncs is out of range.", "5 minutes to 31 days.", code="bad_interval")
    return seconds


def compute_next_sync(due_at: datetime, interval_s: float, now: datetime) -> datetime:
    """Return when a repository is synced next: a whole number of intervals behind a time that was due."""
    interval = timedelta(seconds=interval_s)
    return due_at + interval * (max(now - due_at, timedelta()) // interval + 1)


def has_odd_parts(url: str) -> bool:
    """Return whether an address has a part that the path of a repository does not have."""
    return "?" in url or "#" in url


def check_branch(branch: str) -> str:
    name = branch.strip()
    is_usable = not name or (_BRANCH.fullmatch(name) and ".." not in name and not name.endswith(("/", ".", ".lock")))
    if not is_usable or len(name) > BRANCH_MAX:
        raise make_error(f"{branch[:80]!r} is not the name of a branch.", code="bad_branch")
    return name


def join_problems(problems: Sequence[str]) -> str:
    """Return what is recorded of a sync that left something out."""
    text = " ".join(" ".join(problem.split()) for problem in problems)
    return text if len(text) <= PROBLEM_MAX else f"{text[: PROBLEM_MAX - 1]}…"


# --- what a turn is offered ---


def read_skill_use(settings: Mapping[str, Any]) -> SkillUse:
    """Return what the stored settings of an agent say about skills."""
    return SkillUse(
        is_enabled=bool(settings.get("enable_skills", False)),
        mode=str(settings.get("skills_mode") or "tools"),
        selected=tuple(settings.get("selected_skills") or ()),
        prompt=str(settings.get("skills_prompt") or ""),
    )


def choose_offered(usable: Sequence[Skill], use: SkillUse, *, agent_owner: str, run_owner: str) -> list[Skill]:
    """Return the skills that a turn is offered, by name. `usable` are those of the agent's owner and the shared ones.

    Without a selection the turn of another user is offered shared skills only: who shares an agent shows what it
    names, and not everything that they keep."""
    if not use.is_enabled:
        return []
    by_name: dict[str, Skill] = {}
    for skill in sorted(usable, key=lambda one: str(one.owner) != agent_owner):
        by_name.setdefault(skill.name, skill)
    if use.selected:
        chosen = [skill for skill in by_name.values() if skill.name in use.selected]
    elif agent_owner == run_owner:
        chosen = list(by_name.values())
    else:
        chosen = [skill for skill in by_name.values() if skill.is_shared]
    return sorted(chosen, key=lambda skill: skill.name)[:OFFERED_MAX]


def make_prompt(skills: Sequence[Skill], use: SkillUse, bodies: Mapping[str, str]) -> str:
    """Return what the instructions of a turn say about skills; empty if there are none. `bodies` are those of the
    skills by name, for a mode that shows them."""
    if not skills:
        return ""
    if not use.has_bodies:
        entries = "\n".join(
            f"<skill>\n<name>{escape(skill.name, quote=False)}</name>\n"
            f"<description>{escape(skill.description, quote=False)}</description>\n</skill>"
            for skill in skills
        )
        return f"{use.prompt.strip() or DEFAULT_PROMPT}\n\n<available_skills>\n{entries}\n</available_skills>"
    size_bytes = sum(len(body.encode()) for body in bodies.values())
    if size_bytes > PROMPT_BYTES_MAX:
        raise Unprocessable(
            f"The skills of this agent have {size_bytes} bytes, and a prompt takes {PROMPT_BYTES_MAX}: select fewer "
            "skills, or set skills_mode to tools.",
            code="skills_too_large",
        )
    intro = use.prompt.strip() or (f"{BODIES_PROMPT} {_FILES_PROMPT}" if use.has_tool else BODIES_PROMPT)
    entries = "\n\n".join(
        f'<skill name="{escape(skill.name)}" description="{escape(skill.description)}">\n'
        f"{bodies.get(skill.name, '').strip()}\n</skill>"
        for skill in skills
    )
    return f"{intro}\n\n{entries}"
