"""Data URIs of a job's attachments."""

from __future__ import annotations

from corral.domain.task import Media, MediaKind
from corral.policy.tasks import parse_data_uri


def test_data_uri_is_an_attachment_with_its_type() -> None:
    found = parse_data_uri(MediaKind.IMAGE, "data:image/gif;x=y;base64,R0lG")
    assert found == Media(kind=MediaKind.IMAGE, content_type="image/gif", content=b"GIF")


def test_data_uri_is_recognised_by_its_beginning_alone() -> None:
    # The search takes a second for each 32 MiB otherwise.
    assert parse_data_uri(MediaKind.IMAGE, f"data:image/{'a' * 2000};base64,R0lG") is None
    assert parse_data_uri(MediaKind.IMAGE, f"data:image/a{';b' * 1000};base64,R0lG") is None
