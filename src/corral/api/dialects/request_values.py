"""Reads the values of a request, one at a time. A wrong value, or one that no chat supports, is refused by its name."""

from __future__ import annotations

import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from corral.domain.errors import InvalidRequest

Json = dict[str, Any]
# The first bytes of pictures; Ollama's clients send them without a media type.
_PICTURE = re.compile(rb"(?P<png>\x89PNG)|(?P<jpeg>\xff\xd8\xff)|(?P<gif>GIF8)|(?P<webp>RIFF....WEBP)", re.DOTALL)
_HEAD_CHARS = 16


class NotExpressible(InvalidRequest):
    """A field of the request cannot be translated for this model's engine."""

    code: ClassVar[str] = "not_expressible"


def make_not_expressible_error(what: str, why: str = "a chat completion has no field for it") -> NotExpressible:
    return NotExpressible(
        f"{what} is not possible with this model's engine: {why}.",
        hint="Leave it out, or use a model whose engine speaks this API itself.",
    )


def make_value_error(where: str, expected: str) -> InvalidRequest:
    return InvalidRequest(f"{where}: {expected} is required.", code="bad_value", details={"field": where})


def require_text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise make_value_error(where, "a text")
    return value


def read_word(value: object) -> str:
    """Return a text to be looked up in a table; empty if the value is not a text."""
    return value if isinstance(value, str) else ""


def require_some_text(value: object, where: str) -> str:
    if not require_text(value, where):
        raise make_value_error(where, "a text that is not empty")
    return str(value)


def iter_objects(value: object, where: str) -> Iterator[tuple[str, Json]]:
    """Yield the members of a list of objects, each with its position."""
    if not isinstance(value, list):
        raise make_value_error(where, "a list")
    for index, item in enumerate(value):
        path = f"{where}[{index}]"
        yield path, require_object(item, path)


def require_object(value: object, where: str) -> Json:
    if not isinstance(value, dict):
        raise make_value_error(where, "an object")
    return value


def require_integer(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise make_value_error(where, "a whole number")
    return value


def read_flag(value: object, where: str, *, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise make_value_error(where, "true or false")
    return value


def refuse_unknown(body: Mapping[str, object], known: Collection[str], where: str = "") -> None:
    """Refuse all fields except the known ones. Null counts as absent."""
    for name, value in body.items():
        if name not in known and value is not None:
            raise make_not_expressible_error(f"{where}.{name}" if where else name)


def copy_renamed(body: Mapping[str, object], names: Mapping[str, str]) -> Json:
    """Return the fields that only have another name in a chat, where they are set."""
    return {
        target_name: body[source_name]
        for source_name, target_name in names.items()
        if body.get(source_name) is not None
    }


def make_data_url(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"


def make_picture_url(data: str, where: str) -> str:
    """Return a data URL of base64 data, whose first bytes tell the type of the picture."""
    try:
        head = binascii.a2b_base64(data[:_HEAD_CHARS], strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise make_value_error(where, "a picture in base64") from error
    found = _PICTURE.match(head)
    if found is None:
        raise make_value_error(where, "a PNG, JPEG, GIF or WebP picture")
    return make_data_url(f"image/{found.lastgroup}", data)


def make_image_part(url: str, detail: object = None) -> Json:
    """Return a picture as a part of a chat's message."""
    return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if isinstance(detail, str) else {})}


def make_text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def join_content(parts: list[Json]) -> str | list[Json]:
    """Join parts. Text alone becomes one text, which every chat template understands."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts
