"""Changes a response where its engine's form is not OpenAI's: usage of several choices, logprobs and echo.

Pure, and all state can be pickled, so a large response can be rewritten in another process. Guarantee: a response in
which nothing is to be changed stays as it is, byte for byte, and so does one that is not JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from corral.policy.serving.choices import ChoiceCounter, asks_several, find_repeats, has_prompt_list
from corral.policy.serving.logprobs import LOGPROBS, LogprobsRewriter
from corral.policy.serving.token_usage import TIMINGS

# Matches a second choice after the first one.
_SECOND = re.compile(rb'"index"\s*:\s*1\b')
_DATA = b"data:"
# llama.cpp begins a stream of several completions with an event without contents, which breaks OpenAI's clients.
_EMPTY_EVENT = b"data: null\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEcho:
    """The prompts that a completion is to repeat in front of its texts (`echo`), and how many choices each has."""

    prompts: tuple[str, ...] = field(repr=False)
    repeats: int = 1


class ResponseRewriter:
    """Rewrites the response to one request. One is made only for a request whose response may have to be changed."""

    __slots__ = ("_echo", "_echoed", "_is_done", "_logprobs", "choices")

    def __init__(
        self,
        *,
        choices: ChoiceCounter | None = None,
        logprobs: LogprobsRewriter | None = None,
        echo: PromptEcho | None = None,
    ) -> None:
        self.choices = choices
        self._logprobs = logprobs
        self._echo = echo
        # The indices of the choices whose prompt has been sent.
        self._echoed: set[int] = set()
        # A whole response has been rewritten.
        self._is_done = False

    @property
    def needs_whole(self) -> bool:
        """Whether a response that is no stream cannot be relayed in pieces: its contents change, not only its usage."""
        return self._logprobs is not None or self._echo is not None

    def may_change(self, body: bytes) -> bool:
        """Return whether a whole response has to be decoded, without decoding it."""
        if self._is_done:
            return False
        if self._echo is not None or (self._logprobs is not None and body.find(LOGPROBS) >= 0):
            return True
        return self.choices is not None and body.find(TIMINGS) >= 0 and _SECOND.search(body) is not None

    def prepare(self, request_body: bytes) -> None:
        """Read from the request what a whole response does not say."""
        if self.choices is not None:
            self.choices.measure_prompts(request_body)

    def rewrite(self, body: bytes) -> bytes:
        """Return a whole response, rewritten."""
        answer = _decode(body) if self.may_change(body) else None
        self._is_done = True
        if answer is None:
            return body
        has_changed = self.choices is not None and self.choices.apply(answer)
        return _encode(answer) if self._apply_contents(answer) or has_changed else body

    def rewrite_events(self, events: bytes) -> bytes:
        """Return whole events of a stream, each rewritten."""
        if self.choices is not None and events.find(_EMPTY_EVENT) >= 0:
            events = events.replace(_EMPTY_EVENT, b"")
        if not self._may_change_event(events):
            return events
        return b"\n".join([self._rewrite_line(line) for line in events.split(b"\n")])

    def _may_change_event(self, data: bytes) -> bool:
        return (
            (self.choices is not None and data.find(TIMINGS) >= 0)
            or (self._logprobs is not None and data.find(LOGPROBS) >= 0)
            or self._has_unsent_prompt()
        )

    def _has_unsent_prompt(self) -> bool:
        echo = self._echo
        return echo is not None and len(self._echoed) < len(echo.prompts) * echo.repeats

    def _rewrite_line(self, line: bytes) -> bytes:
        if not line.startswith(_DATA) or not self._may_change_event(line):
            return line
        event = _decode(line[len(_DATA) :])
        if event is None:
            return line
        has_changed = self.choices is not None and self.choices.apply_event(event)
        return b"data: " + _encode(event) if self._apply_contents(event) or has_changed else line

    def _apply_contents(self, answer: dict[str, Any]) -> bool:
        has_logprobs = self._logprobs is not None and self._logprobs.apply(answer)
        choices = answer.get("choices") if self._echo is not None else None
        echoed = [self._echo_choice(one) for one in choices] if isinstance(choices, list) else []
        return has_logprobs or any(echoed)

    def _echo_choice(self, choice: object) -> bool:
        """Put its prompt in front of the first text of a choice."""
        index = choice.get("index", 0) if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(index, int) or index in self._echoed:
            return False
        assert self._echo is not None
        place = index // self._echo.repeats
        if not 0 <= place < len(self._echo.prompts):
            return False
        self._echoed.add(index)
        choice["text"] = self._echo.prompts[place] + str(choice.get("text") or "")
        return True


def make_rewriter(call: str, body: bytes, echo: PromptEcho | None) -> ResponseRewriter | None:
    """Return the rewriter for the response to a request; None if nothing of it can have to be changed. Called for every
    request, so it only searches the bytes."""
    choices = ChoiceCounter() if asks_several(call, body) else None
    if call != "completions":
        return ResponseRewriter(choices=choices) if choices is not None else None
    if choices is not None and has_prompt_list(body):
        choices = ChoiceCounter(find_repeats(body))
    logprobs = LogprobsRewriter() if body.find(LOGPROBS) >= 0 else None
    if choices is None and logprobs is None and echo is None:
        return None
    return ResponseRewriter(choices=choices, logprobs=logprobs, echo=echo)


def rewrite_whole(rewriter: ResponseRewriter, body: bytes) -> tuple[ResponseRewriter, bytes]:
    """Rewrite a whole response in another process; return the rewriter with what it has counted."""
    return rewriter, rewriter.rewrite(body)


def _decode(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _encode(answer: dict[str, Any]) -> bytes:
    # A lone surrogate becomes a question mark, because it cannot be encoded as UTF-8.
    return json.dumps(answer, ensure_ascii=False).encode(errors="replace")
