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
# What may be repeated is always followed by something that it cannot be itself, so that there is one way to match: a
# body made to be slow costs no more than its length.
_S = rb"[ \t\n\r]*"
_TEXT = rb'"[^"\\\x00-\x1f]*"'
_PLAIN = rb"(?:%b|-?[0-9][0-9.eE+-]*|true|false|null)%b" % (_TEXT, _S)
_NAMED = rb"%b%b:%b%b" % (_TEXT, _S, _S, _PLAIN)


def _listed(item: bytes) -> bytes:
    """A few of them."""
    return rb"(?:%b(?:,%b%b){0,7})?" % (item, _S, item)


# As deep as what clients put beside the messages: `"stream_options": {"include_usage": true}`, `"stop": ["\n"]`.
_SHALLOW = rb"(?:%b|(?:\{%b%b\}|\[%b%b\])%b)" % (_PLAIN, _S, _listed(_NAMED), _S, _listed(_PLAIN), _S)
_MEMBER = rb'(?!"model")%b%b:%b%b' % (_TEXT, _S, _S, _SHALLOW)
_MODEL = rb'"model"%b:%b"([^"\\\x00-\x1f]+)"%b' % (_S, _S, _S)
_OPENS = re.compile(rb"%b\{" % _S)
_FIRST = re.compile(rb"%b\{%b(?:%b,%b){0,16}%b[,}]" % (_S, _S, _MEMBER, _S, _MODEL))
_LAST = re.compile(rb"%b(?:,%b%b){0,16}\}%b" % (_MODEL, _S, _MEMBER, _S))
# How far from the beginning or from the end the name may stand.
_LOOKED_AT_BYTES = 4096
_NAME_BYTES_MAX = 1024


def model_name(body: bytes) -> str | None:
    """The name that the body asks for; None: decode it to know."""
    # `find` and neither `in` nor `count`, which take twice as long on bytes.
    find = body.find
    at = find(_NAME)
    if at < 0 or find(_NAME, at + 1) >= 0 or find(_ESCAPED) >= 0:
        return None
    found = _FIRST.match(body, 0, at + _NAME_BYTES_MAX) if at <= _LOOKED_AT_BYTES else None
    if found is None and len(body) - at <= _LOOKED_AT_BYTES and body[at - 1 : at] != b"\\":
        found = _LAST.fullmatch(body, at) if _OPENS.match(body, 0, _LOOKED_AT_BYTES) else None
    if found is None:
        return None
    try:
        return found[1].decode()
    except UnicodeDecodeError:
        return None
