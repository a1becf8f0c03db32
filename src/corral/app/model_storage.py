"""The storage for the files of models, out of a frontend's settings. What it takes is an extra, imported only here."""

from __future__ import annotations

from corral.adapters.storage.address import parse_address, parse_key
from corral.app.settings import FrontendSettings
from corral.domain.errors import INSTALL_HINT, InvalidRequest
from corral.ports.storage import Storage


def open_storage(settings: FrontendSettings) -> Storage | None:
    """None if none is set up; `InvalidRequest` if what it takes is not installed."""
    if settings.library_storage is None:
        return None
    try:
        from corral.adapters.storage.s3 import S3Storage  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InvalidRequest(
            "library_storage is set, and the library for it is not installed.",
            hint=INSTALL_HINT.format(extra="s3"),
        ) from error
    key = settings.library_storage_key
    return S3Storage(parse_address(settings.library_storage), parse_key(key.get_secret_value()) if key else None)
