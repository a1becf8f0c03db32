"""Changes a response where its engine's form is not OpenAI's: usage of several choices, logprobs and echo.

Pure, and all state can be pickled, so a large response can be rewritten in another process. Guarantee: a response in
which nothing is to be changed stays as it is, byte for byte, and so does one that is not JSON.

Usage of several choices (`n`, or several prompts): llama.cpp reports the usage of the first choice in a whole response,
and in a stream that of each choice at its end. OpenAI, vLLM and SGLang report the sum of all. The former is recognised
by its `timings`, which are those of one choice: the same count stands in both. Limits, in a whole response only: a
choice without a count is estimated by the length of its text, and a prompt after the first one by its length, unless it
is a list of token ids. Cached tokens are added up over the prompts if the engine tells those of each, as in a stream;
otherwise they are left out, as in a whole response.

Logprobs of `/v1/completions`: llama.cpp sends them in the form of chats (`content`). OpenAI's form is tokens,
token_logprobs, top_logprobs and text_offset, which counts characters of the response's own text.

Echo: the prompt is put in front of a completion where the engine does not do that. With `max_tokens: 0` the prompt is
all of it: engines generate one token then, or count one, and both are taken out. Limit: the text of a prompt of token
ids is not known, so it is left to an engine with echo of its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from corral.policy.serving.token_usage import TIMINGS, TokenUsage

# In every request that may ask for more than one choice of each prompt.
N_MARK = b'"n"'
# The first number of this name is taken for the top-level one; nothing else of a completion is called so.
_N_VALUE = re.compile(rb'"n"\s*:\s*([1-9][0-9]{0,3})\b')
_PROMPT_LIST = re.compile(rb'"prompt"\s*:\s*(?=\[)')
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
# A request up to this size is decoded to measure its prompts; a larger one is measured by its bytes.
_DECODED_BYTES_MAX = 64 * 1024
_CHARACTERS_PER_TOKEN = 4
_DECODER = json.JSONDecoder()


def asks_several(call: str, body: bytes) -> bool:
    """Return whether a request may ask for more than one choice. Called for every chat, so it only searches the
    bytes."""
    if call == "chat":
        return body.find(N_MARK) >= 0
    return call == "completions" and (body.find(N_MARK) >= 0 or has_prompt_list(body))


def has_prompt_list(body: bytes) -> bool:
    """Return whether the prompt of a completion request is a list: of prompts, or of the token ids of one."""
    return _PROMPT_LIST.search(body) is not None


def find_repeats(body: bytes) -> int:
    """Return how many choices a completion request asks for with each prompt."""
    found = _N_VALUE.search(body)
    return int(found[1]) if found else 1


class PromptSizes(NamedTuple):
    """Token counts of the prompts of one request: of the first prompt, and of all others together."""

    # In characters or in bytes; 0 if the first prompt is a list of token ids.
    first: int = 0
    others: int = 0
    # The tokens of those of the others that are lists of token ids.
    other_tokens: int = 0

    def estimate_total(self, first_tokens: int) -> int:
        """Return the tokens of all prompts; `first_tokens` are those of the first one."""
        per_unit = first_tokens / self.first if self.first else 1 / _CHARACTERS_PER_TOKEN
        return first_tokens + self.other_tokens + max(bool(self.others), round(self.others * per_unit))


def measure_prompts(body: bytes) -> PromptSizes:
    """Measure the prompts of a completion request whose prompt is a list."""
    if len(body) > _DECODED_BYTES_MAX:
        return _measure_large(body)
    prompts = (_decode(body) or {}).get("prompt")
    if not isinstance(prompts, list) or any(isinstance(one, int) for one in prompts):
        # Token ids of one prompt, which may have texts between them.
        return PromptSizes()
    first, others = prompts[:1], prompts[1:]
    return PromptSizes(
        first=sum(len(one) for one in first if isinstance(one, str)),
        others=sum(len(one) for one in others if isinstance(one, str)),
        other_tokens=sum(len(one) for one in others if isinstance(one, list)),
    )


def _measure_large(body: bytes) -> PromptSizes:
    """Measure the prompts of a large request without decoding it: everything behind the first one counts as prompt."""
    found = _PROMPT_LIST.search(body)
    start = found.end() + 1 if found else len(body)
    text = body[start : start + _DECODED_BYTES_MAX].lstrip().decode("utf-8", "ignore")
    try:
        first, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return PromptSizes(others=len(body) - start)
    if isinstance(first, str):
        first_bytes = len(text[:end].encode())
        return PromptSizes(first=first_bytes, others=max(0, len(body) - start - first_bytes))
    # One comma fewer than there are ids, at whatever depth.
    return PromptSizes(other_tokens=max(0, body.count(b",", start) + 1 - len(first))) if first else PromptSizes()


class ChoiceCounter:
    """Adds up the tokens of the choices of one engine response, and of its prompts if there are several."""

    __slots__ = (
        "_by_timings",
        "_by_usage",
        "_cached",
        "_cached_sum",
        "_prompt",
        "_prompt_sum",
        "_repeats",
        "_sizes",
        "is_estimated",
    )

    def __init__(self, repeats: int = 0) -> None:
        # How many choices share a prompt; 0 if there is only one prompt, whose tokens need no adding up.
        self._repeats = repeats
        self._sizes = PromptSizes()
        # The usage of choices, and the timings of choices that have ended.
        self._by_usage = 0
        self._by_timings = 0
        # The tokens of the prompts of all choices that have ended, and of all prompts, each counted once.
        self._prompt_sum = 0
        self._prompt: int | None = None
        # The same for the cached ones of these tokens. None: the engine does not tell those of every prompt.
        self._cached_sum: int | None = 0
        self._cached: int | None = None
        self.is_estimated = False

    @property
    def counts_prompts(self) -> bool:
        return self._repeats > 0

    def measure_prompts(self, request_body: bytes) -> None:
        """Measure the prompts, of which the engine counts only the first one in a whole response."""
        if self._repeats:
            self._sizes = measure_prompts(request_body)

    def make_total(self, usage: TokenUsage) -> TokenUsage:
        """Return the usage of the whole response; `usage` was read from it without regard to choices."""
        counted = self._by_usage or self._by_timings
        if not counted:
            return usage
        if self._prompt is None or usage.prompt is None:
            return usage._replace(completion=counted)
        return TokenUsage(prompt=self._prompt, cached=self._cached, completion=counted)

    def apply(self, answer: dict[str, Any]) -> bool:
        """Make the usage of a whole response count all choices; return whether that changed it."""
        choices = answer.get("choices")
        first = _count_of_one(answer)
        if first is None or not isinstance(choices, list) or len(choices) < 2:
            return False
        self._by_usage = first + sum(self._estimate_tokens(choice, choices[0], first) for choice in choices[1:])
        prompt = answer["usage"].get("prompt_tokens")
        if self._repeats and isinstance(prompt, int):
            self._prompt = self._sizes.estimate_total(prompt)
            # With more choices there are other prompts, of whose cached tokens the engine tells nothing.
            self._cached = _get_cached(answer["usage"]) if len(choices) <= self._repeats else None
            self.is_estimated = self.is_estimated or self._sizes.others > 0
        self._write(answer["usage"])
        return True

    def apply_event(self, event: dict[str, Any]) -> bool:
        """Make the usage in an event count the choices that have ended so far, the last one all; return whether that
        changed it."""
        count = _count_of_one(event)
        if count is not None:
            usage = event["usage"]
            self._by_usage += count
            is_first = self._by_usage == count
            self._add_prompt(usage.get("prompt_tokens"), _get_cached(usage))
            self._write(usage)
            return not is_first
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("finish_reason"):
                self._by_timings += _get_timing(event, "predicted_n") or 0
                read, cached = _get_timing(event, "prompt_n"), _get_timing(event, "cache_n")
                self._add_prompt((read or 0) + (cached or 0), cached)
        return False

    def _add_prompt(self, tokens: object, cached: int | None) -> None:
        if self._repeats and isinstance(tokens, int):
            self._prompt_sum += tokens
            self._prompt = -(-self._prompt_sum // self._repeats)
            self._cached_sum = None if cached is None or self._cached_sum is None else self._cached_sum + cached
            self._cached = None if self._cached_sum is None else self._cached_sum // self._repeats

    def _write(self, usage: dict[str, Any]) -> None:
        usage["completion_tokens"] = self._by_usage
        if isinstance(usage.get("prompt_tokens"), int):
            if self._prompt is not None:
                usage["prompt_tokens"] = self._prompt
                _set_cached(usage, self._cached)
            usage["total_tokens"] = usage["prompt_tokens"] + self._by_usage

    def _estimate_tokens(self, choice: object, first: object, count: int) -> int:
        """Return the tokens of another choice than the first one, which has `count`."""
        if not isinstance(choice, dict) or not isinstance(first, dict):
            return 0
        if choice.get("finish_reason") == first.get("finish_reason") == "length":
            # The same token limit ended both choices.
            return count
        logprobs = choice.get("logprobs")
        listed = (logprobs.get("content") or logprobs.get("tokens")) if isinstance(logprobs, dict) else None
        if isinstance(listed, list) and listed:
            return len(listed)
        self.is_estimated = True
        return max(1, round(count * _measure_length(choice) / max(1, _measure_length(first))))


def _get_timing(answer: dict[str, Any], name: str) -> int | None:
    return _get_count(answer.get("timings"), name)


def _get_cached(usage: dict[str, Any]) -> int | None:
    return _get_count(usage.get("prompt_tokens_details"), "cached_tokens")


def _get_count(counts: object, name: str) -> int | None:
    count = counts.get(name) if isinstance(counts, dict) else None
    # True and False are ints in Python, but no counts.
    return count if type(count) is int and count >= 0 else None


def _set_cached(usage: dict[str, Any], cached: int | None) -> None:
    """Write the cached tokens where the engine reports some; leave them out if those of all prompts are not known."""
    details = usage.get("prompt_tokens_details")
    if not isinstance(details, dict) or "cached_tokens" not in details:
        return
    if cached is not None:
        details["cached_tokens"] = cached
    elif len(details) > 1:
        del details["cached_tokens"]
    else:
        del usage["prompt_tokens_details"]


def _count_of_one(answer: dict[str, Any]) -> int | None:
    """Return the tokens of one choice, if the usage is that of one choice."""
    usage, count = answer.get("usage"), _get_timing(answer, "predicted_n")
    return count if isinstance(usage, dict) and count and usage.get("completion_tokens") == count else None


def _measure_length(choice: dict[str, Any]) -> int:
    """Return how many characters the model wrote for a choice."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return len(str(choice.get("text") or ""))
    calls = message.get("tool_calls")
    return sum(len(str(message.get(name) or "")) for name in _TEXTS) + (len(json.dumps(calls)) if calls else 0)


LOGPROBS = b'"logprobs"'


class LogprobsRewriter:
    """Rewrites the logprobs of one engine response into OpenAI's form. Offsets go on from event to event."""

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


# Matches a second choice after the first one.
_SECOND = re.compile(rb'"index"\s*:\s*1\b')
_DATA = b"data:"
# llama.cpp begins a stream of several completions with an event without contents, which breaks OpenAI's clients.
_EMPTY_EVENT = b"data: null\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEcho:
    """Prompts that a completion repeats in front of its texts (`echo`), and how many choices each has."""

    # Empty if they are not texts.
    prompts: tuple[str, ...] = field(repr=False)
    repeats: int = 1
    # The engine ignores `echo`, so the prompts are added here.
    is_ignored: bool = True
    # No tokens are to follow the prompts (`max_tokens: 0`).
    is_alone: bool = False


class EchoRewriter:
    """Puts the prompts in front of the texts of one engine response, when the request asks for `echo`.

    Takes out what follows them if nothing is to follow.
    """

    __slots__ = ("_echo", "_sent")

    def __init__(self, echo: PromptEcho) -> None:
        self._echo = echo
        # The characters of the prompt that have been sent, by the index of the choice.
        self._sent: dict[int, int] = {}

    @property
    def is_alone(self) -> bool:
        return self._echo.is_alone

    @property
    def may_change(self) -> bool:
        """Return whether the next event of a stream may have to be changed."""
        return self._echo.is_alone or len(self._sent) < len(self._echo.prompts) * self._echo.repeats

    def apply(self, answer: dict[str, Any]) -> bool:
        """Rewrite a whole response or one event; return whether that changed it."""
        choices = answer.get("choices")
        changed = [self._rewrite_choice(one) for one in choices] if isinstance(choices, list) else []
        return (self._echo.is_alone and _drop_completion(answer)) or any(changed)

    def _rewrite_choice(self, choice: object) -> bool:
        index = choice.get("index", 0) if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(index, int):
            return False
        place = index // self._echo.repeats
        if not 0 <= place < len(self._echo.prompts):
            return False
        prompt, sent = self._echo.prompts[place], self._sent.get(index, 0)
        given = text = str(choice.get("text") or "")
        if self._echo.is_ignored and index not in self._sent:
            text = prompt + text
        if self._echo.is_alone:
            text = _cut_behind(prompt, sent, text)
            _cut_logprobs(choice, len(given) - len(text))
        self._sent[index] = sent + len(text)
        if text == given:
            return False
        choice["text"] = text
        return True


def _cut_behind(prompt: str, sent: int, text: str) -> str:
    """Return what of a text belongs to the prompt, of which `sent` characters have been sent; all if it is another
    text."""
    kept = text[: max(0, len(prompt) - sent)]
    return kept if prompt.startswith(kept, sent) else text


def _cut_logprobs(choice: dict[str, Any], surplus: int) -> None:
    """Remove the last tokens from the logprobs of a choice, as many as have `surplus` characters."""
    logprobs = choice.get("logprobs")
    tokens = logprobs.get("tokens") if isinstance(logprobs, dict) else None
    if surplus <= 0 or not isinstance(logprobs, dict) or not isinstance(tokens, list):
        return
    count = len(tokens)
    while count and surplus > 0:
        count -= 1
        surplus -= len(str(tokens[count]))
    choice["logprobs"] = {
        name: values[:count] if isinstance(values, list) else values for name, values in logprobs.items()
    }


def _drop_completion(answer: dict[str, Any]) -> bool:
    """Make the usage of a whole response or of one event count no generated tokens; return whether that changed it."""
    usage = answer.get("usage")
    if not isinstance(usage, dict) or not usage.get("completion_tokens"):
        return False
    usage["completion_tokens"] = 0
    if isinstance(usage.get("prompt_tokens"), int):
        usage["total_tokens"] = usage["prompt_tokens"]
    return True


class ResponseRewriter:
    """Rewrites one engine response into OpenAI's exact form, where the engine differs.

    One is made only for a request whose response may have to be changed.
    """

    __slots__ = ("_echo", "_is_done", "_logprobs", "choices")

    def __init__(
        self,
        *,
        choices: ChoiceCounter | None = None,
        logprobs: LogprobsRewriter | None = None,
        echo: PromptEcho | None = None,
    ) -> None:
        self.choices = choices
        self._logprobs = logprobs
        self._echo = EchoRewriter(echo) if echo is not None else None
        # A whole response has been rewritten.
        self._is_done = False

    @property
    def needs_whole(self) -> bool:
        """Return whether a response that is no stream cannot be relayed in pieces: its contents change, not only its
        usage."""
        return self._logprobs is not None or self._echo is not None

    @property
    def is_prompt_alone(self) -> bool:
        """Return whether the response repeats the prompts and has no tokens of its own."""
        return self._echo is not None and self._echo.is_alone

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
            or (self._echo is not None and self._echo.may_change)
        )

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
        return (self._echo is not None and self._echo.apply(answer)) or has_logprobs


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
