"""`/api/agents/skills`: owners, sharing, files, archives, and what turns of agents are given of skills."""

from __future__ import annotations

import base64
import hashlib
import io
from typing import Any

import aiohttp
import pytest

from corral.policy import skills as policy
from corral.skills.archives import read_skills, write_archive
from corral.store import runs as run_store
from tests.agents.hand_worker import chat, create, join_worker, make_key
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.git_server import skill_text
from tests.support.polling import eventually

PATH = "/api/agents/skills"
AWKWARD = "colon: \"double\" 'single'\nsecond line\n---\n# no comment"


async def put_skill(frontend: RunningFrontend, name: str = "pdf", *, key: str = ADMIN_KEY, **fields: Any) -> Any:
    body = {"name": name, "description": "About PDFs.", "content": "Read the form."} | fields
    status, made = await frontend.call("POST", PATH, body, key=key)
    assert status == 201, made
    return made


async def put_file(frontend: RunningFrontend, path: str, content: bytes, *, key: str = ADMIN_KEY) -> tuple[int, Any]:
    return await frontend.call(
        "PUT", f"{PATH}/pdf/resources/{path}", content, key=key, content_type="application/octet-stream"
    )


async def list_names(frontend: RunningFrontend, query: str = "", *, key: str = ADMIN_KEY) -> list[str]:
    status, found = await frontend.call("GET", f"{PATH}{query}", key=key)
    assert status == 200, found
    return [skill["name"] for skill in found]


async def read_bytes(frontend: RunningFrontend, path: str, *, key: str = ADMIN_KEY) -> bytes:
    headers = {"Authorization": f"Bearer {key}"}
    async with frontend.http.get(f"{frontend.url}{path}", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.read()


async def upload(
    frontend: RunningFrontend, archive: bytes, query: str = "", *, key: str = ADMIN_KEY
) -> tuple[int, Any]:
    return await frontend.call("POST", f"{PATH}/import{query}", archive, key=key, content_type="application/gzip")


@pytest.mark.behaviour("SKILL-1")
async def test_skill_is_read_changed_and_exported_on_another_frontend_at_once(
    frontend: RunningFrontend, database_url: str
) -> None:
    await put_skill(frontend, license="MIT", metadata={"version": "1.0"})
    script = b"#!/bin/sh\necho " + b"x" * 2000
    assert (await put_file(frontend, "scripts/run.sh", script))[0] == 200
    async with running_frontend(database_url) as other:
        _, shown = await other.call("GET", f"{PATH}/pdf")
        assert (shown["content"], shown["license"], shown["metadata"]) == ("Read the form.", "MIT", {"version": "1.0"})
        assert [file["path"] for file in shown["files"]] == ["scripts/run.sh"]
        assert await read_bytes(other, f"{PATH}/pdf/resources/scripts/run.sh") == script
        (content,), _ = read_skills(await read_bytes(other, f"{PATH}/export/pdf"))
        assert (content.document, dict(content.files)) == (shown["document"], {"scripts/run.sh": script})
        body = {"description": "Changed.", "content": "New."}
        assert (await other.call("PUT", f"{PATH}/pdf", body, if_match=str(shown["revision"])))[0] == 200
    _, shown = await frontend.call("GET", f"{PATH}/pdf")
    assert (shown["description"], shown["content"], shown["license"], shown["metadata"]) == ("Changed.", "New.", "", {})
    assert [file["path"] for file in shown["files"]] == ["scripts/run.sh"]
    status, refused = await frontend.call("PUT", f"{PATH}/pdf", body, if_match="1")
    assert (status, refused["error"]["code"]) == (409, "revision_conflict")


@pytest.mark.behaviour("SKILL-3")
async def test_description_with_colons_quotes_and_line_breaks_survives_saving_and_archives(
    frontend: RunningFrontend,
) -> None:
    made = await put_skill(frontend, description=AWKWARD)
    assert made["description"] == AWKWARD
    archive = await read_bytes(frontend, f"{PATH}/export/pdf")
    assert (await frontend.call("DELETE", f"{PATH}/pdf"))[0] == 204
    status, imported = await upload(frontend, archive)
    assert (status, imported["items"][0]["description"]) == (201, AWKWARD), imported


@pytest.mark.behaviour("SKILL-3")
async def test_fields_that_corral_does_not_know_are_kept_when_others_are_changed(frontend: RunningFrontend) -> None:
    document = "---\nname: pdf\ndescription: d\nmodel: opus\nlicense: MIT\n---\n\nbody"
    status, made = await frontend.call("POST", PATH, {"document": document})
    assert (status, made["document"]) == (201, document), made
    _, changed = await frontend.call("PUT", f"{PATH}/pdf", {"description": "e"})
    assert "model: opus" in changed["document"]
    assert "license" not in changed["document"]
    status, refused = await frontend.call("PUT", f"{PATH}/pdf", {"document": document, "content": "both"})
    assert status == 400, refused


@pytest.mark.behaviour("SKILL-4")
async def test_skill_that_is_not_valid_is_refused_and_a_name_that_is_taken_is_a_conflict(
    frontend: RunningFrontend,
) -> None:
    for body in (
        {"name": "Not Valid", "description": "d"},
        {"name": "pdf"},
        {"document": "no front matter"},
        {"name": "pdf", "description": "d", "shard": True},
    ):
        status, refused = await frontend.call("POST", PATH, body)
        assert status == 400, refused
    assert await list_names(frontend) == []
    await put_skill(frontend)
    await put_skill(frontend, "xls")
    status, refused = await frontend.call("POST", PATH, {"name": "pdf", "description": "d"})
    assert (status, refused["error"]["code"]) == (409, "skill_exists")
    status, refused = await frontend.call("PUT", f"{PATH}/xls", {"name": "pdf", "description": "d"})
    assert (status, refused["error"]["code"]) == (409, "skill_exists")
    status, renamed = await frontend.call("PUT", f"{PATH}/xls", {"name": "ods", "description": "d"})
    assert (status, renamed["name"]) == (200, "ods")
    assert await list_names(frontend) == ["ods", "pdf"]


@pytest.mark.behaviour("SKILL-8")
async def test_skill_of_another_owner_does_not_exist_and_a_shared_one_is_only_read(frontend: RunningFrontend) -> None:
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    await put_skill(frontend, key=ann)
    assert await list_names(frontend, key=ben) == []
    assert await list_names(frontend, key=ADMIN_KEY) == []
    calls = (
        ("GET", "/pdf", None),
        ("PUT", "/pdf", {"description": "d"}),
        ("DELETE", "/pdf", None),
        ("GET", "/export/pdf", None),
        ("GET", "/pdf/resources", None),
        ("GET", "/pdf/resources/SKILL.md", None),
        ("DELETE", "/pdf/resources/x", None),
    )
    for method, path, body in calls:
        status, answer = await frontend.call(method, f"{PATH}{path}", body, key=ben)
        assert (status, answer["error"]["code"]) == (404, "skill_not_found"), path
    assert (await put_file(frontend, "x", b"x", key=ben))[0] == 404
    status, refused = await frontend.call("POST", PATH, {"name": "x", "description": "d", "shared": True}, key=ann)
    assert status == 403, refused
    await put_skill(frontend, "common", shared=True)
    await put_skill(frontend, "common", key=ann, description="Ann's own.")
    assert await list_names(frontend, key=ben) == ["common"]
    assert (await frontend.call("GET", f"{PATH}/common", key=ann))[1]["description"] == "Ann's own."
    _, shown = await frontend.call("GET", f"{PATH}/common", key=ben)
    assert (shown["is_own"], shown["shared"], shown["description"]) == (False, True, "About PDFs.")
    for method, body in (("PUT", {"description": "mine"}), ("DELETE", None)):
        status, refused = await frontend.call(method, f"{PATH}/common", body, key=ben)
        assert (status, refused["error"]["code"]) == (403, "not_allowed")
    status, refused = await frontend.call("POST", PATH, {"name": "common", "description": "d", "shared": True})
    assert (status, refused["error"]["code"]) == (409, "skill_exists")


async def test_search_finds_words_of_name_description_and_text_in_any_case(frontend: RunningFrontend) -> None:
    await put_skill(frontend, "pdf-forms", content="Open the FIELDS.")
    await put_skill(frontend, "tables", description="About sheets_100%.")
    assert await list_names(frontend, "/search?q=PDF") == ["pdf-forms", "tables"][:1]
    assert await list_names(frontend, "/search?q=fields") == ["pdf-forms"]
    assert await list_names(frontend, "/search?q=sheets_100%25") == ["tables"]
    assert await list_names(frontend, "/search?q=sheetsx100") == []


async def test_file_of_a_skill_is_stored_replaced_listed_and_deleted(frontend: RunningFrontend) -> None:
    await put_skill(frontend)
    for content in (b"one", b"\x00two"):
        status, made = await put_file(frontend, "references/a.md", content)
        assert (status, made["sha256"]) == (200, hashlib.sha256(content).hexdigest()), made
    assert (await frontend.call("PUT", f"{PATH}/pdf", {"description": "d"}, if_match="1"))[0] == 200
    form = aiohttp.FormData()
    form.add_field("path", "assets/logo.png")
    form.add_field("file", io.BytesIO(b"png"), filename="logo.png")
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with frontend.http.post(f"{frontend.url}{PATH}/pdf/resources", data=form, headers=headers) as answer:
        assert answer.status == 201, await answer.text()
    _, files = await frontend.call("GET", f"{PATH}/pdf/resources")
    assert [(file["path"], file["size_bytes"]) for file in files] == [("assets/logo.png", 3), ("references/a.md", 4)]
    assert await read_bytes(frontend, f"{PATH}/pdf/resources/references/a.md") == b"\x00two"
    assert (await frontend.call("DELETE", f"{PATH}/pdf/resources/references/a.md"))[0] == 204
    status, missing = await frontend.call("DELETE", f"{PATH}/pdf/resources/references/a.md")
    assert (status, missing["error"]["code"]) == (404, "skill_file_not_found")


async def test_file_that_leads_out_of_its_skill_or_is_too_large_is_refused(frontend: RunningFrontend) -> None:
    await put_skill(frontend)
    for path in ("..%2Fx", "a%2F..%2F..%2Fx", "%2Fetc%2Fx", "SKILL.md", "skill.md", "a%5Cb", "a%00b", "x" * 200):
        status, refused = await put_file(frontend, path, b"x")
        assert (status, refused["error"]["code"]) in ((400, "bad_path"), (400, "bad_text")), path
    large = io.BytesIO(bytes(policy.FILE_BYTES_MAX + 1))
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/octet-stream"}
    async with frontend.http.put(f"{frontend.url}{PATH}/pdf/resources/big", data=large, headers=headers) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (413, "skill_too_large")
    assert (await put_file(frontend, "a", b"x"))[0] == 200
    assert (await put_file(frontend, "a/b", b"x"))[0] == 400
    for number in range(policy.FILES_MAX - 1):
        assert (await put_file(frontend, f"f{number}", b"x"))[0] == 200
    status, refused = await put_file(frontend, "one-more", b"x")
    assert (status, refused["error"]["code"]) == (413, "skill_too_large")


async def test_owner_with_too_many_skills_or_bytes_is_refused(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "SKILLS_OF_OWNER_MAX", 1)
    await put_skill(frontend)
    status, refused = await frontend.call("POST", PATH, {"name": "xls", "description": "d"})
    assert (status, refused["error"]["code"]) == (429, "too_many_skills")
    monkeypatch.setattr(policy, "OWNER_BYTES_MAX", 3000)
    assert (await put_file(frontend, "a", bytes(2000)))[0] == 200
    status, refused = await put_file(frontend, "b", bytes(2000))
    assert (status, refused["error"]["code"]) == (429, "too_many_skills")
    assert [file["path"] for file in (await frontend.call("GET", f"{PATH}/pdf"))[1]["files"]] == ["a"]


@pytest.mark.behaviour("SKILL-7")
async def test_import_stores_all_skills_of_an_archive_or_none(frontend: RunningFrontend) -> None:
    await put_skill(frontend, "b")
    files = {"a/SKILL.md": skill_text("a").encode(), "b/SKILL.md": skill_text("b", "New.").encode(), "b/x": b"y"}
    archive = write_archive("all", files)
    status, refused = await upload(frontend, archive)
    assert (status, refused["error"]["code"]) == (409, "skill_exists")
    assert await list_names(frontend) == ["b"]
    status, imported = await upload(frontend, archive, "?replace=true")
    assert status == 201, imported
    assert [(skill["name"], skill["file_count"]) for skill in imported["items"]] == [("a", 0), ("b", 1)]
    assert imported["items"][1]["description"] == "New."
    bad = write_archive("all", {"c/SKILL.md": skill_text("c").encode(), "../x": b"y"})
    status, refused = await upload(frontend, bad)
    assert (status, refused["error"]["code"]) == (400, "bad_path")
    assert await list_names(frontend) == ["a", "b"]


# --- turns ---


async def take_turn(frontend: RunningFrontend, worker: Any, name: str = "helper", *, key: str = ADMIN_KEY) -> Any:
    run_id = (await chat(frontend, "hi", name=name, key=key))["run_id"]
    return run_id, await worker.take(run_id)


async def read_content(worker: Any, run_id: str, sha256: str, *, job: str = "") -> tuple[int, Any]:
    job_id = job or worker.jobs[run_id]
    found: tuple[int, Any] = await worker.node.call(
        "GET", f"/runs/{run_id}/skills/content?sha256={sha256}&job_id={job_id}"
    )
    return found


@pytest.mark.behaviour("SKILL-2")
async def test_whole_text_and_files_of_a_skill_reach_the_worker_of_a_turn_by_hash(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    body = "word " * 40_000
    made = await put_skill(frontend, content=body, description="Use <it> & go.")
    script = bytes(range(256)) * 100
    await put_file(frontend, "scripts/run.bin", script)
    await create(frontend, enable_skills=True, skills_prompt="Mind these:")
    run_id, spec = await take_turn(frontend, worker)
    assert "Mind these:\n\n<available_skills>" in spec["instructions"]
    assert "Use &lt;it&gt; &amp; go." in spec["instructions"]
    assert "word word" not in spec["instructions"]
    (skill,) = spec["skills"]
    assert [file["path"] for file in skill["files"]] == ["SKILL.md", "scripts/run.bin"]
    for file, content in zip(skill["files"], (made["document"].encode(), script), strict=True):
        status, answer = await read_content(worker, run_id, file["sha256"])
        assert (status, base64.b64decode(answer["content"]) == content) == (200, True)
    await frontend.call("DELETE", f"{PATH}/pdf/resources/scripts/run.bin")
    status, gone = await read_content(worker, run_id, skill["files"][1]["sha256"])
    assert (status, gone["error"]["code"]) == (404, "skill_file_not_found")


async def test_agent_shows_whole_skills_in_its_prompt_if_it_says_so(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    await put_skill(frontend)
    await create(frontend, "quiet")
    assert "Read the form." not in (await take_turn(frontend, worker, "quiet"))[1]["instructions"]
    await create(frontend, "prompt", enable_skills=True, skills_mode="prompt")
    _, spec = await take_turn(frontend, worker, "prompt")
    assert "Read the form." in spec["instructions"]
    assert spec["skills"] == []
    await create(frontend, "both", enable_skills=True, skills_mode="both")
    _, spec = await take_turn(frontend, worker, "both")
    assert "Read the form." in spec["instructions"]
    assert "request_skill" in spec["instructions"]
    assert [skill["name"] for skill in spec["skills"]] == ["pdf"]


async def test_turn_whose_skills_do_not_fit_into_the_prompt_fails_and_says_so(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    await put_skill(frontend, content="x" * (policy.PROMPT_BYTES_MAX + 1))
    await create(frontend, enable_skills=True, skills_mode="prompt")
    run_id = (await chat(frontend, "hi"))["run_id"]
    await worker.wait_for(run_id)
    await worker.fetch(run_id)
    run = await worker.wait_until_ended(run_id)
    assert (run["state"], run["error_code"]) == ("failed", "skills_too_large"), run


@pytest.mark.behaviour("SKILL-9")
async def test_selected_skills_limit_what_a_turn_is_offered(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    for name in ("pdf", "xls", "doc"):
        await put_skill(frontend, name)
    await create(frontend, enable_skills=True, selected_skills=["xls", "gone"])
    _, spec = await take_turn(frontend, worker)
    assert [skill["name"] for skill in spec["skills"]] == ["xls"]
    assert "pdf" not in spec["instructions"]
    _, shown = await frontend.call("PUT", "/api/agents/helper", {"name": "helper", "model": "m", "enable_skills": True})
    assert shown["config"]["selected_skills"] == []
    _, spec = await take_turn(frontend, worker)
    assert [skill["name"] for skill in spec["skills"]] == ["doc", "pdf", "xls"]


@pytest.mark.behaviour("SKILL-10")
async def test_worker_reads_files_of_turns_that_it_holds_and_of_skills_that_they_are_offered(
    frontend: RunningFrontend,
) -> None:
    worker, other = await join_worker(frontend), await join_worker(frontend, "agent-2")
    offered = await put_skill(frontend, "pdf")
    hidden = await put_skill(frontend, "xls", description="Something else.")
    ann = (await make_key(frontend, "ann"))["key"]
    stranger = await put_skill(frontend, "own", key=ann, description="Ann's.")
    await create(frontend, enable_skills=True, selected_skills=["pdf"])
    run_id = (await chat(frontend, "hi"))["run_id"]
    holder = await find_holder(run_id, worker, other)
    await holder.take(run_id)
    assert (await read_content(holder, run_id, offered["sha256"]))[0] == 200
    for skill in (hidden, stranger):
        assert (await read_content(holder, run_id, skill["sha256"]))[0] == 404
    rival = other if holder is worker else worker
    job_id = holder.jobs[run_id]
    status, refused = await read_content(rival, run_id, offered["sha256"], job=job_id)
    assert (status, refused["error"]["code"]) == (409, "run_not_held")
    status, refused = await read_content(holder, run_id, offered["sha256"], job="another")
    assert (status, refused["error"]["code"]) == (409, "run_not_held")
    status, _ = await frontend.call(
        "GET", f"/api/node/{holder.node.id}/runs/{run_id}/skills/content?sha256=x&job_id={job_id}", key=ann
    )
    assert status in (401, 403)
    await holder.end(run_id)
    assert (await read_content(holder, run_id, offered["sha256"]))[0] == 409


async def find_holder(run_id: str, *workers: Any) -> Any:
    """Return the worker that a run was given to."""

    async def look() -> Any:
        async with workers[0].frontend.database.transaction() as tx:
            run = await run_store.get_run(tx, run_id)
        return next((worker for worker in workers if worker.node.id == run.node_id), None)

    return await eventually(look)


@pytest.mark.behaviour("SKILL-10")
async def test_turn_of_another_user_is_offered_selected_and_shared_skills_only(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    await put_skill(frontend, "private")
    await put_skill(frontend, "common", shared=True)
    ann = (await make_key(frontend, "ann"))["key"]
    await put_skill(frontend, "anns", key=ann)
    await create(frontend, "all", enable_skills=True, shared=True)
    await create(frontend, "chosen", enable_skills=True, selected_skills=["private"], shared=True)
    for key, agent, expected in (
        (ADMIN_KEY, "all", ["common", "private"]),
        (ann, "all", ["common"]),
        (ann, "chosen", ["private"]),
    ):
        _, spec = await take_turn(frontend, worker, agent, key=key)
        assert [skill["name"] for skill in spec["skills"]] == expected


async def test_form_of_an_agent_has_the_fields_about_skills(frontend: RunningFrontend) -> None:
    _, form = await frontend.call("GET", "/api/agents/config/metadata")
    fields = {field["name"]: field for field in form["fields"]}
    assert fields["skills_mode"]["options"] == ["tools", "prompt", "both"]
    assert {"enable_skills", "selected_skills", "skills_prompt"} <= fields.keys()
