"""Galleries are set up like everything else: by a variable, a flag or a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.app.settings import FrontendSettings, load_settings, redact_settings
from corral.domain.backend import Gallery
from corral.domain.errors import InvalidRequest

NEEDED = {
    "CORRAL_DATABASE_URL": "postgresql://corral@db:5432/corral",
    "CORRAL_NATS_URL": "nats://bus:4222",
    "CORRAL_NATS_ACCOUNT_SEED": "SA" + "A" * 56,
}
MINE = {"name": "mine", "url": "https://u:hunter22@files.example/index.yaml", "mirrors": ["http://10.0.0.7/i.yaml"]}


def settings(**variables: str) -> FrontendSettings:
    return load_settings(FrontendSettings, environ=NEEDED | variables).settings


def test_galleries_come_from_json_in_a_variable() -> None:
    read = settings(CORRAL_BACKEND_GALLERIES=json.dumps([MINE, {"name": "other", "url": "http://localhost/i"}]))
    assert read.backend_galleries == (
        Gallery(name="mine", url=str(MINE["url"]), mirrors=("http://10.0.0.7/i.yaml",)),
        Gallery(name="other", url="http://localhost/i"),
    )
    assert settings().backend_galleries == ()
    assert (settings().prefer_development, settings().auto_upgrade_backends) == (False, False)


def test_galleries_come_from_tables_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "corral.toml"
    file.write_text('[[frontend.backend_galleries]]\nname = "mine"\nurl = "https://files.example/i"\n')
    read = load_settings(FrontendSettings, environ=NEEDED, config=file).settings
    assert read.backend_galleries == (Gallery(name="mine", url="https://files.example/i"),)


@pytest.mark.parametrize(
    "text",
    [
        "mine=https://x",
        "{}",
        "[1]",
        '[{"url": "https://x"}]',
        '[{"name": "a b", "url": "https://x"}]',
        '[{"name": "a"}]',
        '[{"name": "a", "url": "ftp://x"}]',
        '[{"name": "a", "url": "https://[x"}]',
        '[{"name": "a", "url": "https://x", "mirrors": ["x"]}]',
        '[{"name": "a", "url": "https://x", "mirors": []}]',
        '[{"name": "Corral", "url": "https://x"}]',
        '[{"name": "a", "url": "https://x"}, {"name": "A", "url": "https://y"}]',
    ],
)
def test_gallery_that_makes_no_sense_is_refused_by_the_name_of_its_variable(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        settings(CORRAL_BACKEND_GALLERIES=text)
    assert caught.value.message.startswith("CORRAL_BACKEND_GALLERIES ")


def test_password_in_the_address_of_a_gallery_is_never_shown() -> None:
    loaded = load_settings(FrontendSettings, environ=NEEDED | {"CORRAL_BACKEND_GALLERIES": json.dumps([MINE])})
    shown = next(one.value for one in redact_settings(loaded) if one.key == "backend_galleries")
    assert shown is not None
    assert json.loads(shown)[0]["url"] == "https://u:••••@files.example/index.yaml"
    assert "hunter22" not in shown + repr(loaded.settings)
