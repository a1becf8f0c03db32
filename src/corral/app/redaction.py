"""Masks secrets before text leaves the process: in logs, in `config show`, in errors about addresses.

Masked are values under keys that name a secret, passwords in addresses, Corral's own credentials (`ck_`, `cj_`, `cn_`,
`cs_`), NATS seeds and JWTs, anywhere in a text. A secret without any of these marks cannot be recognised: keep it in a
field whose name says that it is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "••••"
# Longer than any traceback that an operator reads.
TEXT_MAX = 32_768

_SECRET_KEY = re.compile(r"password|passwd|token|secret|seed|credential|authorization|api_?key|admin_?key|jwt", re.I)
# Keys that contain no secret but describe one: a count, an id, an expiry.
_HARMLESS_KEY = re.compile(r"(_id|_ids|_name|_count|_ttl|_ttl_s|_at|_file|_path|_expires)$", re.I)
# A password may contain an unescaped '/' or '#'; only in a web address these more likely end the host.
_USERINFO = re.compile(
    r"(?P<scheme>(?:https?|wss?)://)(?P<user>[^\s:/?#@]{0,256})(?::(?P<password>[^\s/?#]{0,512}))?@"
    r"|(?<![a-z0-9+.-])(?!(?:https?|wss?)://)(?P<scheme2>[a-z][a-z0-9+.-]{0,31}://)(?P<user2>[^\s:/?#@]{0,256})(?::(?P<password2>\S{0,512}))?@",
    re.I,
)
_PASSWORD_PARAMETER = re.compile(r"(?P<key>\b(?:password|sslpassword|token|api_?key)=)[^\s&;,'\"]+", re.I)
_BEARER = re.compile(r"(?P<scheme>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.I)
_OUR_SECRET = re.compile(r"(?<![A-Za-z0-9])(?P<prefix>c[kjns]_)[A-Za-z0-9_-]{8,}")
# Without a leading word boundary: a seed glued to other text is still a seed.
_SEED = re.compile(r"S[AOUNCX][A-Z2-7]{56}")
# A JWT may be glued to other text, too. Each run of such characters is read from its beginning alone: read from every
# `eyJ` of a text that has nothing else, the work would grow with the square of its length.
_JWT = re.compile(
    r"(?<![A-Za-z0-9_-])(?P<before>(?:(?!eyJ)[A-Za-z0-9_-])*)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"
)


def _mask_userinfo(match: re.Match[str]) -> str:
    # NATS carries a token as a lone user name, so it is masked too.
    scheme = match["scheme"] or match["scheme2"]
    user = match["user"] if match["password"] is not None else match["user2"]
    has_password = match["password"] is not None or match["password2"] is not None
    return f"{scheme}{user}:{MASK}@" if has_password else f"{scheme}{MASK}@"


def redact_text(text: str) -> str:
    """Return the text with everything masked that looks like a secret. A very long text is truncated first."""
    if len(text) > TEXT_MAX:
        # Truncated text cannot leak, and a client's bad request must not keep the process busy with masking it.
        text = f"{text[:TEXT_MAX]}… ({len(text) - TEXT_MAX} characters more)"
    text = _USERINFO.sub(_mask_userinfo, text)
    text = _PASSWORD_PARAMETER.sub(rf"\g<key>{MASK}", text)
    text = _BEARER.sub(rf"\g<scheme>{MASK}", text)
    text = _JWT.sub(rf"\g<before>{MASK}", text)
    text = _OUR_SECRET.sub(rf"\g<prefix>{MASK}", text)
    return _SEED.sub(MASK, text)


def is_secret_key(key: str) -> bool:
    """Return whether a value under this key is a secret, regardless of its form."""
    return _SECRET_KEY.search(key) is not None and _HARMLESS_KEY.search(key) is None


def redact(value: object, key: str = "") -> object:
    """Return a value as it may be shown, with secrets masked. Descends into mappings and sequences."""
    is_number = isinstance(value, int | float)
    if value is None or isinstance(value, bool) or (is_number and key.endswith("tokens")):
        return value
    if is_secret_key(key):
        return MASK if value != "" else value
    if is_number:
        return value
    if isinstance(value, Mapping):
        return {redact_text(str(name)): redact(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(item) for item in value]
    return redact_text(value.decode(errors="replace") if isinstance(value, bytes) else str(value))
