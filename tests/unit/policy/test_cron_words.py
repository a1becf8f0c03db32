"""Cron patterns in words."""

from __future__ import annotations

import pytest

from corral.policy.cron import InvalidSchedule, normalise_cron
from corral.policy.cron_words import describe_cron


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/1 * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/15 * * * 1-5", "every 15 minutes, Monday to Friday"),
        ("@hourly", "every hour"),
        ("5 * * * *", "every hour at minute 5"),
        ("0 */6 * * *", "every 6 hours"),
        ("20 */6 * * *", "every 6 hours at minute 20"),
        ("0 9 * * *", "every day at 09:00"),
        (" @Daily ", "every day at 00:00"),
        ("30 9,17 * * *", "every day at 09:30 and 17:30"),
        ("0 8 * * 1-5", "Monday to Friday at 08:00"),
        ("0 8 * * mon,wed,fri", "Monday, Wednesday, and Friday at 08:00"),
        ("0 8 * * 0", "every Sunday at 08:00"),
        ("0 8 * * 6,7", "Saturday and Sunday at 08:00"),
        ("@monthly", "on day 1 of the month at 00:00"),
        ("0 0 1,15 * *", "on days 1 and 15 of the month at 00:00"),
        ("0 0 1 1 *", "on 1 January at 00:00"),
        ("0 0 1 1,7 *", "on day 1 in January and July at 00:00"),
    ],
)
def test_cron_pattern_is_described_in_words(cron: str, words: str) -> None:
    assert describe_cron(normalise_cron(cron)) == words


@pytest.mark.parametrize("cron", ["0 0 13 * 5", "*/7 * * * *", "0 0 1-9 * *", "0 8-18 * * *", "1,2 * * * *"])
def test_cron_pattern_stays_as_it_is_where_words_would_be_longer(cron: str) -> None:
    assert describe_cron(cron) == cron


def test_words_of_an_invalid_pattern_are_refused() -> None:
    with pytest.raises(InvalidSchedule, match="2 fields"):
        describe_cron("every day")
