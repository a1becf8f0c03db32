"""The settings of a library: where files of models are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.adapters.storage.s3 import S3Storage
from corral.app.port_providers import open_storage
from corral.app.settings import FrontendSettings, load_settings
from corral.domain.errors import InvalidRequest

BASE = {
    "CORRAL_DATABASE_URL": "postgresql://corral@db/corral",
    "CORRAL_NATS_URL": "nats://bus:4222",
    "CORRAL_NATS_ACCOUNT_SEED": "SA" + "A" * 56,
}
STORAGE = {
    "CORRAL_LIBRARY_STORAGE": "s3://bucket/models?endpoint=http://127.0.0.1:9000",
    "CORRAL_LIBRARY_STORAGE_KEY": "name:hunter22",
}


def read(**variables: str) -> FrontendSettings:
    return load_settings(FrontendSettings, environ=BASE | variables).settings


def test_files_are_kept_in_a_folder_of_the_user_unless_another_is_named() -> None:
    assert read().library_dir == Path("~/.corral-library").expanduser()
    assert read(CORRAL_LIBRARY_DIR="/srv/models").library_dir == Path("/srv/models")
    assert open_storage(read()) is None


def test_storage_is_named_by_its_address_and_its_key_is_a_secret() -> None:
    settings = read(**STORAGE)
    storage = open_storage(settings)
    assert isinstance(storage, S3Storage)
    assert storage.name == "s3://bucket/models"
    assert "hunter22" not in repr(settings)


@pytest.mark.parametrize(
    "variables",
    [
        {"CORRAL_LIBRARY_STORAGE": "https://bucket"},
        {"CORRAL_LIBRARY_STORAGE": "s3://bucket", "CORRAL_LIBRARY_STORAGE_KEY": "hunter22"},
        {**STORAGE, "CORRAL_SHARED_MODELS": "true"},
    ],
)
def test_storage_that_makes_no_sense_is_refused_by_name(variables: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**variables)
    assert "hunter22" not in str(caught.value.details) + caught.value.message
    assert "LIBRARY_STORAGE" in caught.value.message
