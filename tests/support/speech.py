"""The sentence that tests have spoken and transcribed again, and how near to it a transcript has to be."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

SENTENCE = "The quick brown fox jumps over the lazy dog."
_WORDS = re.findall("[a-z]+", SENTENCE.lower())
# Piper speaks a little differently each time, and the smallest whisper may mishear one word or split it in two.
_MISHEARD_MAX = 1


def assert_is_sentence(transcript: str) -> None:
    """Fail unless all words of the sentence but one stand in the transcript in their order, with little beside them."""
    words = re.findall("[a-z]+", transcript.lower())
    found = sum(block.size for block in SequenceMatcher(None, _WORDS, words, autojunk=False).get_matching_blocks())
    assert found >= len(_WORDS) - _MISHEARD_MAX, transcript
    assert len(words) <= len(_WORDS) + _MISHEARD_MAX, transcript
