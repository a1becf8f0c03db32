"""The name of the model in a body, without decoding the body where that is exact.

Inside a JSON string every quote is escaped, so the bytes `"model"` behind anything but a backslash are a whole string.
If they stand there once, and no name can be spelt with escapes, it is decided by where they stand: the first member, or
one with nothing but simple members before or behind it, belongs to the outermost object. Everything else is left to who
decodes. Guarantee: for a body that is JSON, the name is the one that a decoder finds, and there is only one.
Limit: whether the rest is JSON is not looked at. It goes to the engine as it came, and the engine says so.
"""

from __future__ import annotations

import re

_NAME = b'"model"'
# Only with these can the letters of a name be spelt in another way.
_ESCAPED = b"\\u00"
# Every repetition keeps what it has taken (`*+`): a body made to be slow costs no more than its length.
_S = rb"[ \t\n\r]*+"
_TEXT = rb'"[^"\\\x00-\x1f]*+"'
_PLAIN = rb"(?:" + _TEXT + rb"|-?[0-9][0-9.eE+-]*+|true|false|null)"
# As deep as what clients put beside the messages: `"stream_options": {"include_usage": true}`, `"stop": ["\n"]`.
_SHALLOW = (
    rb"(?:" + _PLAIN + rb"|\{" + _S + rb"(?:" + _TEXT + _S + rb":" + _S + _PLAIN + _S + rb"(?:," + _S + rb")?+){0,8}+\}"
    rb"|\[" + _S + rb"(?:" + _PLAIN + _S + rb"(?:," + _S + rb")?+){0,8}+\])"
)
_MEMBER = rb'(?!"model")' + _TEXT + _S + rb":" + _S + _SHALLOW
_MODEL = rb'"model"' + _S + rb":" + _S + rb'"([^"\\\x00-\x1f]++)"' + _S
_OPENS = re.compile(_S + rb"\{")
_FIRST = re.compile(_S + rb"\{" + _S + rb"(?:" + _MEMBER + _S + rb"," + _S + rb"){0,16}+" + _MODEL + rb"[,}]")
_LAST = re.compile(_MODEL + rb"(?:," + _S + _MEMBER + _S + rb"){0,16}+\}" + _S)
# How far behind the name the end may be for the second look.
_TAIL_BYTES_MAX = 1024


def model_name(body: bytes) -> str | None:
    """The name that the body asks for; None: decode it to know."""
    at = body.find(_NAME)
    if at < 0 or body.find(_NAME, at + 1) >= 0 or body[at - 1 : at] == b"\\" or _ESCAPED in body:
        return None
    found = _FIRST.match(body)
    if found is None and len(body) - at <= _TAIL_BYTES_MAX and _OPENS.match(body):
        found = _LAST.fullmatch(body, at)
    if found is None:
        return None
    try:
        return found[1].decode()
    except UnicodeDecodeError:
        return None
