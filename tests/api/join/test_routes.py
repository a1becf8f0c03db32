"""`/join` and `/api/join` over HTTP: what is served to whom, and which address another machine is given."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from corral.api.join.address import JoinOptions, choose_address, choose_script_url
from corral.api.join.routes import load_worker_package, pack_wheel
from corral.domain.errors import InvalidRequest
from tests.support.frontends import RunningFrontend
from tools.source import ROOT

OPEN = JoinOptions(listen_host="0.0.0.0", port=8080, find_host=lambda: "192.0.2.9")
CLOSED = JoinOptions(listen_host="127.0.0.1", port=8080, find_host=lambda: "192.0.2.9")


async def _get(frontend: RunningFrontend, path: str, host: str = "yard") -> tuple[int, bytes]:
    async with frontend.http.get(f"{frontend.url}{path}", headers={"Host": host}) as answer:
        return answer.status, await answer.read()


@pytest.mark.behaviour("JOIN-1")
async def test_join_routes_serve_the_files_that_the_script_names_without_a_key(frontend: RunningFrontend) -> None:
    package = load_worker_package()
    script = (await _get(frontend, "/join", "yard:8080"))[1].decode()
    assert "url='http://yard:8080'" in script
    assert "--http-host 0.0.0.0 --engine-host 0.0.0.0" in script
    status, wheel = await _get(frontend, f"/join/{package.wheel_name}")
    assert (status, hashlib.sha256(wheel).hexdigest()) == (200, package.wheel_sha256)
    assert package.wheel_sha256 in script
    status, requirements = await _get(frontend, "/join/requirements.txt")
    assert status == 200
    assert hashlib.sha256(requirements).hexdigest() in script
    assert (await _get(frontend, "/join/other-1.0-py3-none-any.whl"))[0] == 404


async def test_join_script_never_holds_a_host_that_is_no_plain_host(frontend: RunningFrontend) -> None:
    for host in ("yard';reboot;'", "yard`reboot`", "$(reboot)", "reboot;"):
        _, body = await _get(frontend, "/join", host)
        assert b"reboot" not in body, body


async def test_join_commands_say_that_a_cluster_on_the_loopback_cannot_be_reached(frontend: RunningFrontend) -> None:
    status, join = await frontend.call("GET", "/api/join")
    assert status == 200
    assert join["problem"] == "This cluster listens on 127.0.0.1 only: no other machine can reach it."
    assert "--host 0.0.0.0" in join["hint"]
    assert join["worker_command"] == f"corral worker --join {frontend.url} --token {{token}}"
    script = (await _get(frontend, "/join", frontend.url.removeprefix("http://")))[1]
    assert join["script_sha256"] == hashlib.sha256(script).hexdigest()


@pytest.mark.parametrize(
    ("options", "public_url", "request_url", "url"),
    [
        (CLOSED, "https://corral.example.com", "http://127.0.0.1:8080/", "https://corral.example.com"),
        (CLOSED, None, "http://yard:8080/", "http://yard:8080"),
        (OPEN, None, "http://localhost:8080/", "http://192.0.2.9:8080"),
        (JoinOptions(listen_host="::", port=1, find_host=lambda: "fd00::9"), None, "http://[::1]:1/", "http://[fd00::9]:1"),
        (JoinOptions(listen_host="10.0.0.5", port=8080), None, "http://localhost:8080/", "http://10.0.0.5:8080"),
    ],
)  # fmt: skip
def test_join_address_is_one_that_another_machine_reaches(
    options: JoinOptions, public_url: str | None, request_url: str, url: str
) -> None:
    chosen = choose_address(options, public_url, request_url)
    assert (chosen.url, chosen.problem) == (url, None)


def test_script_address_takes_the_scheme_of_the_public_address_only_for_its_own_host() -> None:
    public = "https://corral.example.com"
    assert choose_script_url(public, "http://corral.example.com/") == public
    assert choose_script_url(public, "http://10.0.0.5:8080/") == "http://10.0.0.5:8080"
    with pytest.raises(InvalidRequest):
        choose_script_url(None, "http://a'b/")


def test_worker_wheel_holds_the_code_without_page_and_caches_and_is_the_same_for_the_same_code(tmp_path: Path) -> None:
    wheel = load_worker_package().wheel
    names = zipfile.ZipFile(io.BytesIO(wheel)).namelist()
    assert "corral/app/worker.py" in names
    assert "corral/api/join/requirements.txt" in names
    assert any(name.startswith("corral/engines/gallery/") for name in names)
    assert [name for name in names if "__pycache__" in name or "/page/built/" in name] == []
    code = tmp_path / "corral"
    for name in names:
        if name.startswith("corral/"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((ROOT / "src" / name).read_bytes())
    (code / "__pycache__").mkdir()
    (code / "__pycache__/a.pyc").write_bytes(b"compiled")
    assert pack_wheel(code, {}, "1") == pack_wheel(ROOT / "src/corral", {}, "1")
