"""Compaction: when a conversation outgrows its limit, earlier messages are replaced by a summary of the same model.

A tool call and its results are kept or replaced together. The last message of the user always stays whole, and so does
the newest call with its results; messages that follow stay as far as half of the limit holds them. Tokens are estimated
as four characters each, and more if the engine has counted more.

Limit: a conversation whose last message alone is over the limit is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corral.runner.transcript import Message, read_text

CHARACTERS_PER_TOKEN = 4
# What a picture or a sound costs, whatever the size of its encoded bytes.
MEDIA_TOKENS = 1000
# A summary is made of at most so many pieces, each as large as the limit; what is older is left out.
PIECES_MAX = 8
SUMMARY_PROMPT = (
    "You compress conversations. Write a summary of the conversation below for the assistant that continues it: facts, "
    "names, numbers, decisions, results of tools, and what is still open. Leave out greetings and repetitions. Answer "
    "with the summary only."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """Says which messages of a long conversation a summary replaces and which stay, to fit the model's context."""

    replaced: Sequence[Message]
    kept: Sequence[Message]


def estimate_tokens(messages: Sequence[Message]) -> int:
    return sum(map(_estimate_message, messages))


def _estimate_message(message: Message) -> int:
    characters, media = 0, 0
    content = message.get("content")
    if isinstance(content, str):
        characters += len(content)
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            characters += len(part["text"])
        else:
            media += 1
    if calls := message.get("tool_calls"):
        characters += len(json.dumps(calls, ensure_ascii=False))
    return -(-characters // CHARACTERS_PER_TOKEN) + media * MEDIA_TOKENS


def plan_compaction(messages: Sequence[Message], limit_tokens: int, ratio: float) -> CompactionPlan | None:
    """Return what to replace; None if the conversation fits, or nothing in it may be replaced.

    `ratio`: how many tokens the engine counted for each one that was estimated; at least 1.
    """
    if limit_tokens <= 0 or estimate_tokens(messages) * ratio <= limit_tokens:
        return None
    groups = _split_groups(messages)
    kept = _choose_kept(groups, limit_tokens / 2, ratio)
    replaced = [message for index, group in enumerate(groups) if index not in kept for message in group]
    if not replaced:
        return None
    return CompactionPlan(replaced=replaced, kept=[message for index in sorted(kept) for message in groups[index]])


def _split_groups(messages: Sequence[Message]) -> list[list[Message]]:
    """Split into groups that stay together: a message, or a call with its results."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.get("role") == "tool" and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _choose_kept(groups: Sequence[Sequence[Message]], limit_tokens: float, ratio: float) -> set[int]:
    kept = {index for index, group in enumerate(groups) if group[0].get("role") == "system" and index == 0}
    users = [index for index, group in enumerate(groups) if group[0].get("role") == "user"]
    kept |= {users[-1]} if users else set()
    kept.add(len(groups) - 1)
    used = sum(estimate_tokens(groups[index]) for index in kept) * ratio
    for index in range(len(groups) - 1, -1, -1):
        if index in kept:
            continue
        used += estimate_tokens(groups[index]) * ratio
        if used > limit_tokens:
            break
        kept.add(index)
    return kept


def make_pieces(messages: Sequence[Message], limit_tokens: int) -> list[str]:
    """Return the messages as texts that a model with this limit can read, the newest pieces if they are too many."""
    limit = max(limit_tokens, 256) * CHARACTERS_PER_TOKEN
    pieces: list[str] = []
    current = ""
    for line in map(_write_message, messages):
        for start in range(0, len(line), limit):
            part = line[start : start + limit]
            if current and len(current) + len(part) > limit:
                pieces.append(current)
                current = ""
            current += part + "\n"
    if current:
        pieces.append(current)
    return pieces[-PIECES_MAX:]


def make_summary_request(previous: str, piece: str) -> list[Message]:
    """Return the messages that ask for a summary of an earlier one and the next piece."""
    text = f"Summary so far:\n{previous}\n\nConversation:\n{piece}" if previous else f"Conversation:\n{piece}"
    return [{"role": "system", "content": SUMMARY_PROMPT}, {"role": "user", "content": text}]


def _write_message(message: Message) -> str:
    text = read_text(message)
    calls = "".join(
        f" calls {call['function'].get('name')}({call['function'].get('arguments', '')})"
        for call in message.get("tool_calls") or ()
        if isinstance(call.get("function"), Mapping)
    )
    return f"{message.get('role', 'user')}:{calls} {text}"
