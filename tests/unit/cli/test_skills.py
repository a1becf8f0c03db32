"""`corral skills …`: write, import, export and list skills, and keep repositories of them."""

from __future__ import annotations

import io
import json
import tarfile
from email import message_from_bytes
from typing import Any

from aiohttp import web

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal

REPO_ID = "01a1f591-7f13-7d68-8623-eb0a09d8e5f9"


def a_skill(**changes):
    made = {
        "name": "pdf", "description": "About\nPDFs.", "source": "inline", "owner": "key:k", "owner_name": "ann",
        "revision": 3, "file_count": 1, "size_bytes": 2048, "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z", "license": "MIT", "metadata": {"version": "1"},
    }  # fmt: skip
    return made | changes


def a_detail(**changes):
    files = [{"path": "a.md", "size_bytes": 1, "sha256": "0"}]
    document = "---\nname: pdf\n---\n\nRead\x1b it."
    return a_skill(content="Read it.", document=document, sha256="0", files=files) | changes


def a_repo(**changes):
    made = {
        "id": REPO_ID, "url": "https://git.example/skills.git", "enabled": True, "commit": "c0ffee" * 6, "skills": 2,
        "run_id": "r1", "owner": "key:k", "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    return made | changes


def collect_uploads(found):
    """Collect the query, the file and the path of each form that is sent."""

    async def receive(request):
        head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        form = message_from_bytes(head + await request.read())
        parts: dict[Any, Any] = {
            part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in form.walk()
        }
        found.append((dict(request.query), parts["file"], parts.get("path", b"").decode()))
        file = {"path": "a", "size_bytes": 1, "sha256": "0"}
        body = {"items": [a_detail()]} if request.path.endswith("import") else file
        return web.json_response(body, status=201)

    return receive


def test_skills_are_listed_searched_and_shown(corral, frontend):
    frontend.on("GET /api/agents/skills", json_answer([a_skill(), a_skill(name="xls", read_only=True, commit="abc")]))
    lines = corral("skills", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "SOURCE", "OWNER", "SHARED", "FILES", "DESCRIPTION"]
    assert "About PDFs." in lines[1]
    assert "git abc" in lines[2]
    assert json.loads(corral("skills", "list", "--json").out)[0]["name"] == "pdf"
    frontend.on("GET /api/agents/skills/search", json_answer([]))
    assert "corral skills import" in corral("skills", "search", "x").err
    frontend.on("GET /api/agents/skills/pdf", json_answer(a_detail()))
    shown = corral("skills", "show", "pdf").out
    assert "a.md" in shown
    assert "Read\N{REPLACEMENT CHARACTER} it." in shown


def test_skill_is_created_of_options_or_a_file(corral, frontend, tmp_path):
    frontend.on("POST /api/agents/skills", json_answer(a_detail(), status=201))
    assert "Created skill pdf." in corral("skills", "create", "pdf", "-d", "About PDFs.", "-c", "Read it.").err
    assert bodies(frontend, "POST /api/agents/skills")[-1] == {
        "name": "pdf", "description": "About PDFs.", "content": "Read it."
    }  # fmt: skip
    file = tmp_path / "SKILL.md"
    file.write_text("---\nname: pdf\n---\n")
    corral("skills", "create", "pdf", "-f", str(file), "--shared")
    sent = {"name": "pdf", "document": "---\nname: pdf\n---\n", "shared": True}
    assert bodies(frontend, "POST /api/agents/skills")[-1] == sent
    assert corral("skills", "create", "pdf", "-f", str(file), "-d", "x").code == 1


def test_file_in_the_place_of_a_name_is_refused_with_the_right_command(corral, frontend):
    refused = corral("skills", "create", "s.md")
    assert refused.code == 1
    assert "s.md is a file" in refused.err
    assert "corral skills create NAME --file s.md" in refused.err
    assert frontend.seen == []


def test_edit_keeps_what_is_not_given(corral, frontend):
    frontend.on("GET /api/agents/skills/pdf", json_answer(a_detail()))
    frontend.on("PUT /api/agents/skills/pdf", json_answer(a_detail()))
    assert corral("skills", "edit", "pdf", "-d", "Better.").code == 0
    sent = bodies(frontend, "PUT /api/agents/skills/pdf")[-1]
    assert (sent["description"], sent["content"], sent["license"]) == ("Better.", "Read it.", "MIT")
    assert sent["metadata"] == {"version": "1"}
    assert "shared" not in sent
    assert frontend.seen[-1].headers["If-Match"] == '"3"'


def test_folder_is_packed_and_imported(corral, frontend, tmp_path):
    found: list[Any] = []
    frontend.on("POST /api/agents/skills/import", collect_uploads(found))
    folder = tmp_path / "pdf"
    (folder / "scripts").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    (folder / "SKILL.md").write_text("text")
    (folder / "scripts" / "run.py").write_text("print()")
    made = corral("skills", "import", str(folder), "--replace")
    assert (made.out, made.code) == ("pdf\n", 0)
    query, content, _ = found[-1]
    assert query == {"replace": "true", "shared": "false"}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getnames() == ["SKILL.md", "scripts/run.py"]
    corral("skills", "import", str(folder / "SKILL.md"))
    with tarfile.open(fileobj=io.BytesIO(found[-1][1])) as archive:
        assert archive.getnames() == ["SKILL.md"]
    (tmp_path / "x.zip").write_bytes(b"PK")
    corral("skills", "import", str(tmp_path / "x.zip"))
    assert found[-1][1] == b"PK"
    (folder / "link").symlink_to("/etc/passwd")
    assert "is a link" in corral("skills", "import", str(folder)).err
    assert "cannot be read" in corral("skills", "import", str(tmp_path / "gone")).err
    (tmp_path / "empty").mkdir()
    assert "SKILL.md" in corral("skills", "import", str(tmp_path / "empty")).err


def test_skill_is_exported_to_a_new_file(corral, frontend, tmp_path):
    async def send(request):
        del request
        return web.Response(body=b"\x1f\x8bpacked", content_type="application/gzip")

    frontend.on("GET /api/agents/skills/export/pdf", send)
    target = tmp_path / "pdf.tar.gz"
    assert corral("skills", "export", "pdf", str(target)).code == 0
    assert target.read_bytes() == b"\x1f\x8bpacked"
    assert "does not exist yet" in corral("skills", "export", "pdf", str(target)).err


def test_file_of_a_skill_is_put_and_deleted(corral, frontend, tmp_path):
    found: list[Any] = []
    frontend.on("POST /api/agents/skills/pdf/resources", collect_uploads(found))
    frontend.on("DELETE /api/agents/skills/pdf/resources/references/a.md", json_answer(None, status=204))
    file = tmp_path / "a.md"
    file.write_text("text")
    assert corral("skills", "files", "put", "pdf", "references/a.md", str(file)).code == 0
    assert found[-1][1:] == (b"text", "references/a.md")
    assert corral("skills", "files", "delete", "pdf", "references/a.md").code == 0


def test_read_only_skill_is_refused_with_its_hint(corral, frontend):
    answer = refusal(409, "skill_read_only", "The skill pdf comes from a repository.")
    frontend.on("DELETE /api/agents/skills/pdf", answer)
    refused = corral("skills", "delete", "pdf")
    assert (refused.code, "comes from a repository" in refused.err) == (1, True)


def test_repositories_are_listed_with_their_problems_and_found_by_a_short_id(corral, frontend):
    frontend.on("GET /api/agents/git-repos", json_answer([a_repo(problem="x: not valid.")]))
    listed = corral("skills", "repos", "list")
    assert listed.out.splitlines()[0].split() == [
        "ID",
        "URL",
        "BRANCH",
        "ENABLED",
        "SHARED",
        "EVERY",
        "SKILLS",
        "COMMIT",
        "SYNCED",
    ]
    assert "c0ffeec0ff" in listed.out
    assert "x: not valid." in listed.err
    frontend.on("POST /api/agents/git-repos", json_answer(a_repo(), status=201))
    added = corral("skills", "repos", "add", "https://git.example/skills.git", "-b", "next")
    assert (added.out, "corral runs watch r1" in added.err) == (f"{REPO_ID}\n", True)
    assert bodies(frontend, "POST /api/agents/git-repos")[-1]["branch"] == "next"
    frontend.on(f"POST /api/agents/git-repos/{REPO_ID}/sync", json_answer(a_repo(), status=201))
    assert corral("skills", "repos", "sync", "e5f9").code == 0
    frontend.on(f"POST /api/agents/git-repos/{REPO_ID}/toggle", json_answer(a_repo(enabled=False)))
    assert corral("skills", "repos", "disable", "e5f9").code == 0
    assert corral("skills", "repos", "enable", "e5f9").code == 0
    sent = bodies(frontend, f"POST /api/agents/git-repos/{REPO_ID}/toggle")
    assert sent == [{"enabled": False}, {"enabled": True}]
    frontend.on(f"DELETE /api/agents/git-repos/{REPO_ID}", json_answer(None, status=204))
    assert corral("skills", "repos", "delete", REPO_ID).code == 0


def test_agent_is_given_skills_by_options(corral, frontend):
    agent = {
        "id": "a", "name": "helper", "status": "active", "owner": "key:k", "revision": 1, "config": {"model": "m"},
        "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    frontend.on("GET /api/agents/helper", json_answer(agent))
    frontend.on("PUT /api/agents/helper", json_answer(agent))
    for words, enabled, selected in (
        (["--skill", "pdf", "--skill", "xls"], True, ["pdf", "xls"]),
        (["--skill", "*"], True, []),
        (["--skill", ""], False, []),
    ):
        assert corral("agents", "edit", "helper", *words).code == 0
        sent = bodies(frontend, "PUT /api/agents/helper")[-1]
        assert (sent["enable_skills"], sent["selected_skills"]) == (enabled, selected)


def test_private_repository_is_added_and_edited_and_what_is_not_given_stays(corral, frontend):
    frontend.on("POST /api/agents/git-repos", json_answer(a_repo(), status=201))
    words = ("https://git.example/skills.git", "--secret", "secret:token", "--username", "ann", "--every", "1h")
    assert corral("skills", "repos", "add", *words).code == 0
    assert bodies(frontend, "POST /api/agents/git-repos")[-1] == {
        "url": "https://git.example/skills.git",
        "branch": "",
        "shared": False,
        "secret": "secret:token",
        "username": "ann",
        "sync_interval": "1h",
    }
    known = a_repo(secret="secret:token", username="ann", sync_interval=60.0, branch="next")
    frontend.on("GET /api/agents/git-repos", json_answer([known]))
    frontend.on(f"PUT /api/agents/git-repos/{REPO_ID}", json_answer(known))
    assert "60 min" in corral("skills", "repos", "list").out
    assert corral("skills", "repos", "edit", REPO_ID[-6:], "--every", "never", "--shared").code == 0
    kept = {"url": "https://git.example/skills.git", "branch": "next", "secret": "secret:token", "username": "ann"}
    sent = bodies(frontend, f"PUT /api/agents/git-repos/{REPO_ID}")
    assert sent[-1] == kept | {"sync_interval": None, "shared": True}
    assert corral("skills", "repos", "edit", REPO_ID[-6:], "--secret", "").code == 0
    public = kept | {"secret": "", "username": "", "sync_interval": 60.0, "shared": False}
    assert bodies(frontend, f"PUT /api/agents/git-repos/{REPO_ID}")[-1] == public
