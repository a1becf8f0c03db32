"""Durations: written the same way in settings, in files of models and in requests."""

from __future__ import annotations

import pytest

from corral.domain.duration import parse_duration_s
from corral.policy.models.mapping_reader import MappingReader
from corral.wire.backends import StrategyIn


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("90", 90.0), ("30s", 30.0), ("1.5m", 90.0), ("2h", 7200.0), ("7d", 604800.0)],
)
def test_duration_means_the_same_in_a_setting_a_file_and_a_request(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds
    assert MappingReader({"idle": text}, "tiny", "bad_config").read_seconds("idle") == seconds
    assert StrategyIn(deadline=text).deadline_s == seconds
