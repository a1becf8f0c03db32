"""Keys of processes: read from the last `#`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.worker.processes.journal import REPLICA_MAX, ProcessKey, make_file_name, parse_key

names = st.text(min_size=1, max_size=60).filter(str.isprintable)


@pytest.mark.behaviour("OPS-70")
@given(model=names, replica=st.integers(min_value=0, max_value=REPLICA_MAX))
def test_key_is_read_back_whatever_the_model_is_called(model: str, replica: int):
    key = ProcessKey(model=model, replica=replica)
    assert parse_key(str(key)) == key


@pytest.mark.behaviour("OPS-70")
def test_last_hash_counts():
    assert parse_key("a#1#2") == ProcessKey(model="a#1", replica=2)
    assert parse_key("##0") == ProcessKey(model="#", replica=0)


@pytest.mark.behaviour("OPS-70")
@pytest.mark.parametrize(
    "text", ["", "a", "#", "#0", "a#", "a#-1", "a#x", "a#1.5", "a# 1", "a#٣", "a#1000000", "a\n#0"]
)
def test_invalid_process_key_is_refused(text: str):
    with pytest.raises(InvalidRequest, match="is not the key of a process") as caught:
        parse_key(text)
    assert caught.value.slug == "invalid_process_key"


@given(first=names, second=names)
def test_files_of_different_keys_have_different_names(first: str, second: str):
    one, other = make_file_name(f"{first}#0"), make_file_name(f"{second}#0")
    assert (one.lower() == other.lower()) == (first == second)
    assert len(one) < 200
    assert "/" not in one
    assert not one.startswith(".") or one[1:2] not in ("", ".")
