"""The rewards of trainings: six functions that judge texts, and code of people, judged in a process without rights.

Joined into the launcher of the trainer when that is read; it imports nothing of Corral.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

# The seconds that one call of inline rewards may take, and the memory of their process.
REWARD_S = 60
REWARD_BYTES = 1024**3
UNPRIVILEGED_ID = 65534
NO_FUNCTION = "the code defines no function `reward(completions, **columns)`"


class TrainingError(Exception):
    """A training that cannot be done, with a code for programs."""

    def __init__(self, message: str, code: str = "training_failed") -> None:
        super().__init__(message)
        self.code = code


def finite(value: Any) -> float | None:
    """Return a number that JSON can hold; None for one that is none or without a limit."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def get_text(completion: Any) -> str:
    """Return a completion as text, also one of messages."""
    if isinstance(completion, list):
        return "".join(str(one.get("content") or "") for one in completion if isinstance(one, dict))
    return str(completion)


def reward_format(text: str, _expected: str, _target: int) -> float:
    """1 for thoughts and an answer in their tags, in this order and with nothing else."""
    return float(bool(re.fullmatch(r"\s*<think>.*?</think>\s*<answer>.*?</answer>\s*", text, re.DOTALL)))


def reward_accuracy(text: str, expected: str, _target: int) -> float:
    """1 for the expected answer in its tag, or as the last word or number."""
    if not expected.strip():
        return 0.0
    tags = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    words = tags[-1] if tags else " ".join(text.split()[-len(expected.split()) :])
    return float(normalize(words) == normalize(expected.rpartition("####")[2]))


def normalize(text: str) -> str:
    return re.sub(r"[\s,$.]+", "", text).lower()


def reward_length(text: str, _expected: str, target: int) -> float:
    """1 for a text with as many words as the target; less the further away it is."""
    return max(0.0, 1.0 - abs(len(text.split()) - target) / max(1, target))


def reward_xml(text: str, _expected: str, _target: int) -> float:
    """The share of tags that are closed as they were opened; 0 without any."""
    opened: list[str] = []
    good = total = 0
    for is_end, name in re.findall(r"<(/?)([a-zA-Z][\w-]*)>", text):
        total += 1
        if not is_end:
            opened.append(name)
        elif opened and opened[-1] == name:
            opened.pop()
            good += 2
    return good / total if total else 0.0


def reward_no_repetition(text: str, _expected: str, _target: int) -> float:
    """The share of groups of three words that occur once."""
    words = text.lower().split()
    groups = [tuple(words[at : at + 3]) for at in range(len(words) - 2)]
    return len(set(groups)) / len(groups) if groups else 1.0


def reward_code_syntax(text: str, _expected: str, _target: int) -> float:
    """The share of blocks of Python code that can be parsed; 0 without any. Nothing is executed."""
    blocks = re.findall(r"```(?:python|py)?\n(.*?)```", text, re.DOTALL)
    return sum(is_python(block) for block in blocks) / len(blocks) if blocks else 0.0


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


REWARDS: dict[str, Callable[[str, str, int], float]] = {
    "format": reward_format,
    "reasoning_accuracy": reward_accuracy,
    "length": reward_length,
    "xml_tags": reward_xml,
    "no_repetition": reward_no_repetition,
    "code_syntax": reward_code_syntax,
}


def make_rewards(request: dict[str, Any]) -> list[Callable[..., list[float]]]:
    found = [
        InlineReward(one) if one.get("type") == "inline" else make_built_in(one)
        for one in request.get("reward_functions") or ()
    ]
    return found or [make_built_in({"name": "format"})]


def make_built_in(definition: dict[str, Any]) -> Callable[..., list[float]]:
    judge, target = REWARDS[definition["name"]], int((definition.get("params") or {}).get("target_length") or 200)

    def reward(completions: Sequence[Any], **columns: Any) -> list[float]:
        expected = next((columns[name] for name in ("answer", "solution", "ground_truth") if name in columns), None)
        answers = [str(one) for one in expected] if expected is not None else [""] * len(completions)
        return [judge(get_text(one), answer, target) for one, answer in zip(completions, answers, strict=True)]

    reward.__name__ = str(definition["name"])
    return reward


class InlineReward:
    """Has the code of a person judged by a process without rights, memory and files to speak of."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.__name__ = re.sub(r"\W", "_", str(definition.get("name") or "inline"))[:50]
        self._code = str(definition["code"])
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float]:
        if self._process is None:
            command = [sys.executable, "-I", __file__, "--rewards"]
            pipe, environment = subprocess.PIPE, {"PATH": os.defpath}
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=pipe, stdout=pipe, env=environment, cwd="/", text=True
            )
            self._call({"code": self._code})
        plain = {name: value for name, value in columns.items() if is_plain(value)}
        found = self._call({"completions": [get_text(one) for one in completions], "columns": plain})
        if not isinstance(found, list) or len(found) != len(completions):
            raise TrainingError("The inline reward function returned no number for each completion.", "reward_failed")
        return [finite(one) or 0.0 for one in found]

    def close(self) -> None:
        """End the process; without it, it ends with this one."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _call(self, fields: dict[str, Any]) -> Any:
        process = self._process
        assert process is not None, "it was started"
        assert process.stdin is not None, "it was started with pipes"
        assert process.stdout is not None, "it was started with pipes"
        timer = threading.Timer(REWARD_S, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(fields) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline() or "{}")
        except (OSError, ValueError):
            answer = {}
        finally:
            timer.cancel()
        if answer.get("error") or "rewards" not in answer:
            reason = str(answer.get("error") or f"its process ended, or took longer than {REWARD_S} s")[:500]
            raise TrainingError(f"The inline reward function failed: {reason}", "reward_failed")
        return answer["rewards"]


def is_plain(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str | int | float | bool | None) for one in value)


def serve_rewards() -> int:
    """Judge completions with the code of a request, as a process that may do as little as possible."""
    drop_rights()
    space: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "code" in request:
                # The operator has allowed it, and this process has given up its rights.
                exec(compile(request["code"], "reward", "exec"), space)  # noqa: S102 - see above
                rewards: Any = [] if callable(space.get("reward")) else None
            else:
                rewards = [float(one) for one in space["reward"](request["completions"], **request["columns"])]
            answer = {"rewards": rewards} if rewards is not None else {"error": NO_FUNCTION}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


def drop_rights() -> None:
    """Give up the rights of the worker: no files, no new processes, little memory; another user if it is root."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (REWARD_BYTES, REWARD_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(UNPRIVILEGED_ID)
        os.setuid(UNPRIVILEGED_ID)
    # Behind the change of the user: the limits count the processes and files of that user.
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
