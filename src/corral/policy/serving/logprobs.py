"""Rewrites the logprobs of `/v1/completions` into OpenAI's form: tokens, token_logprobs, top_logprobs and text_offset.

llama.cpp sends them in the form of chats (`content`). `text_offset` counts characters of the response's own text.
"""

from __future__ import annotations

from typing import Any

LOGPROBS = b'"logprobs"'


class LogprobsRewriter:
    """Rewrites the logprobs in the response to one request into OpenAI's form. Offsets go on from event to event."""

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        # The characters sent so far, by the index of the choice.
        self._offsets: dict[int, int] = {}

    def apply(self, answer: dict[str, Any]) -> bool:
        """Rewrite the logprobs of a whole response or of one event; return whether that changed it."""
        choices = answer.get("choices")
        return any([self._rewrite_choice(one) for one in choices] if isinstance(choices, list) else [])

    def _rewrite_choice(self, choice: Any) -> bool:
        logprobs = choice.get("logprobs") if isinstance(choice, dict) else None
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if not isinstance(content, list):
            return False
        index = choice.get("index")
        position = index if isinstance(index, int) else 0
        entries = [one for one in content if isinstance(one, dict)]
        offsets = []
        for one in entries:
            offsets.append(self._offsets.get(position, 0))
            self._offsets[position] = offsets[-1] + len(str(one.get("token", "")))
        choice["logprobs"] = {
            "tokens": [_read_token(one) for one in entries],
            "token_logprobs": [one.get("logprob") for one in entries],
            "top_logprobs": [_read_top(one) for one in entries],
            "text_offset": offsets,
        }
        return True


def _read_token(entry: dict[str, Any]) -> str:
    """Return a token's text; of a token that is only a part of a character, its bytes, as OpenAI writes them."""
    raw = entry.get("bytes")
    if isinstance(raw, list) and all(isinstance(one, int) and 0 <= one <= 255 for one in raw):
        try:
            bytes(raw).decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
    return str(entry.get("token", ""))


def _read_top(entry: dict[str, Any]) -> dict[str, Any]:
    several = entry.get("top_logprobs")
    found = [one for one in several if isinstance(one, dict)] if isinstance(several, list) else []
    return {_read_token(one): one.get("logprob") for one in found}
