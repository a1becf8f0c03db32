"""Files that commands write: whole, or not at all, and never over another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.cli.new_file import open_new_file
from corral.domain.errors import InvalidRequest, Unavailable


def write_half(path: Path) -> None:
    with open_new_file(path) as target:
        target.write(b"half")
        raise Unavailable("The frontend is gone.")


def test_download_that_breaks_off_leaves_no_file_so_that_the_command_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with pytest.raises(Unavailable):
        write_half(path)
    assert not path.exists()
    with open_new_file(path) as target:
        target.write(b"whole")
    assert path.read_bytes() == b"whole"


def test_file_that_exists_is_kept_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"mine")
    with pytest.raises(InvalidRequest, match="cannot be written"), open_new_file(path) as target:
        target.write(b"theirs")
    assert path.read_bytes() == b"mine"


def test_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="No such file or directory"), open_new_file(tmp_path / "a" / "b"):
        raise AssertionError
