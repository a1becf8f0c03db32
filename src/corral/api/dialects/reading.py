"""Reading what a caller sent, one value at a time. What is wrong, and what no chat can say, is refused by its name."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from corral.domain.errors import InvalidRequest

Json = dict[str, Any]
# The first bytes of pictures; Ollama's clients send them without saying what they are.
_PICTURES = {
    re.compile(rb"\x89PNG"): "png",
    re.compile(rb"\xff\xd8\xff"): "jpeg",
    re.compile(rb"GIF8"): "gif",
    re.compile(rb"RIFF....WEBP", re.DOTALL): "webp",
}
_HEAD_CHARS = 16


class NotExpressible(InvalidRequest):
    """The request means something that cannot be said to this model's engine."""

    code: ClassVar[str] = "not_expressible"


def not_expressible(what: str, why: str = "it cannot be said in a chat completion") -> NotExpressible:
    return NotExpressible(
        f"{what} is not possible with this model's engine: {why}.",
        hint="Leave it out, or use a model whose engine speaks this API itself.",
    )


def wrong(where: str, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"{where}: {wanted} is needed.", code="bad_value", details={"field": where})


def text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise wrong(where, "a text")
    return value


def word(value: object) -> str:
    """What something is called, to be looked up; whatever is no text is no word."""
    return value if isinstance(value, str) else ""


def some_text(value: object, where: str) -> str:
    if not text(value, where):
        raise wrong(where, "a text that is not empty")
    return str(value)


def objects(value: object, where: str) -> Iterator[tuple[str, Json]]:
    """The members of a list of objects, each with its place."""
    if not isinstance(value, list):
        raise wrong(where, "a list")
    for index, item in enumerate(value):
        place = f"{where}[{index}]"
        yield place, mapping(item, place)


def mapping(value: object, where: str) -> Json:
    if not isinstance(value, dict):
        raise wrong(where, "an object")
    return value


def whole(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(where, "a whole number")
    return value


def flag(value: object, where: str, *, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise wrong(where, "true or false")
    return value


def refuse_others(body: Mapping[str, object], known: Collection[str], where: str = "") -> None:
    """Whatever is said beside what is understood. Null says nothing."""
    for name, value in body.items():
        if name not in known and value is not None:
            raise not_expressible(f"{where}.{name}" if where else name)


def copied(body: Mapping[str, object], names: Mapping[str, str]) -> Json:
    """What only has another name in a chat, where it is said."""
    return {ours: body[theirs] for theirs, ours in names.items() if body.get(theirs) is not None}


def data_url(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"


def picture(data: str, where: str) -> str:
    """A data URL of base64 whose first bytes tell what kind of picture it is."""
    try:
        head = base64.b64decode(data[:_HEAD_CHARS], validate=True)
    except (binascii.Error, ValueError) as error:
        raise wrong(where, "a picture in base64") from error
    kind = next((name for magic, name in _PICTURES.items() if magic.match(head)), None)
    if kind is None:
        raise wrong(where, "a PNG, JPEG, GIF or WebP picture")
    return data_url(f"image/{kind}", data)


def image_part(url: str, detail: object = None) -> Json:
    """A picture as a part of a chat's message."""
    return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if isinstance(detail, str) else {})}


def text_part(said: str) -> Json:
    return {"type": "text", "text": said}


def content_of(parts: list[Json]) -> str | list[Json]:
    """Text alone goes as a text: that is what every chat template understands."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts
