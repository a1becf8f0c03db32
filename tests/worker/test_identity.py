"""The worker's identity and its folder on a real disk."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from corral.adapters.system import SystemIdGenerator
from corral.app.worker import BUS_KEYS
from corral.domain.errors import InvalidRequest
from corral.worker.identity import IdentityDamaged, WorkerAlreadyRunning, WorkerIdentityFile, hold_home

IDS = SystemIdGenerator()


def _file(home: Path) -> WorkerIdentityFile:
    return WorkerIdentityFile(home, BUS_KEYS)


@pytest.mark.behaviour("WRK-2")
def test_identity_is_made_once_and_read_back_the_same(tmp_path: Path):
    made = _file(tmp_path).load_or_create(IDS)
    assert made.credential.startswith("cn_")
    assert made.bus_public_key.startswith("U")
    assert made.node_id is None
    assert _file(tmp_path).load_or_create(IDS) == made


@pytest.mark.behaviour("WRK-2")
def test_registered_node_id_is_stored(tmp_path: Path):
    file = _file(tmp_path)
    accepted = file.load_or_create(IDS).with_registration("node-7", "gpu ä", "http://f:8080")
    file.save(accepted)
    again = _file(tmp_path).load_or_create(IDS)
    assert again == accepted
    assert again.is_accepted_as("gpu ä", "http://f:8080")
    assert not again.is_accepted_as("gpu-b", "http://f:8080")
    assert not again.is_accepted_as("gpu ä", "http://other:8080")


def test_file_is_closed_to_others_and_nothing_is_left_beside_it(tmp_path: Path):
    (tmp_path / "identity.json.new").write_text("half a fi")
    _file(tmp_path).load_or_create(IDS)
    assert [path.name for path in tmp_path.iterdir()] == ["identity.json"]
    assert stat.S_IMODE((tmp_path / "identity.json").stat().st_mode) == 0o600
    (tmp_path / "identity.json").chmod(0o644)
    _file(tmp_path).load_or_create(IDS)
    assert stat.S_IMODE((tmp_path / "identity.json").stat().st_mode) == 0o600


def test_secrets_do_not_show_in_the_text_of_an_identity(tmp_path: Path):
    made = _file(tmp_path).load_or_create(IDS)
    assert made.credential not in repr(made)
    assert made.bus_seed not in repr(made)


def _without(name: str) -> Any:
    return lambda document: {key: value for key, value in document.items() if key != name}


def _with_one_letter_changed(seed: str) -> str:
    return seed[:-1] + ("B" if seed.endswith("A") else "A")


DAMAGE: dict[str, Any] = {
    "empty": lambda _: "",
    "cut": lambda document: json.dumps(document)[:60],
    "a list": lambda document: [document],
    "another format": lambda document: document | {"format": 99},
    "no credential": _without("credential"),
    "a short credential": lambda document: document | {"credential": "cn_abc"},
    "no seed": _without("bus_seed"),
    "a damaged seed": lambda document: document | {"bus_seed": _with_one_letter_changed(document["bus_seed"])},
    "a number for a name": lambda document: document | {"node_id": 7},
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_identity_is_refused_with_a_hint_and_never_replaced(tmp_path: Path, what: str):
    file = _file(tmp_path)
    file.load_or_create(IDS)
    path = tmp_path / "identity.json"
    broken = DAMAGE[what](json.loads(path.read_text()))
    text = broken if isinstance(broken, str) else json.dumps(broken)
    path.write_text(text)
    with pytest.raises(IdentityDamaged) as caught:
        file.load_or_create(IDS)
    assert str(path) in caught.value.message
    assert "corral nodes remove" in str(caught.value.hint)
    assert path.read_text() == text


def test_identity_that_cannot_be_opened_is_refused(tmp_path: Path):
    (tmp_path / "identity.json").mkdir()
    with pytest.raises(IdentityDamaged):
        _file(tmp_path).load_or_create(IDS)


def test_second_worker_on_one_folder_is_refused_until_the_first_is_gone(tmp_path: Path):
    home = tmp_path / "deep" / "home"
    with hold_home(home):
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        with pytest.raises(WorkerAlreadyRunning) as caught, hold_home(home):
            pass
        assert str(home) in caught.value.message
        assert "--worker-home" in str(caught.value.hint)
    with hold_home(home):
        pass


def test_folder_that_is_a_file_is_refused_with_a_hint(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequest, match="cannot be used"), hold_home(tmp_path / "file"):
        pass
