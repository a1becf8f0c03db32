"""The rewards of the trainer: the six built-in ones, and code of people in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from corral.engines import read_launcher
from corral.engines.launchers._trl_rewards import REWARDS, InlineReward, TrainingError, make_rewards
from corral.policy.fine_tuning import REWARDS as KNOWN

TARGET = 4


@pytest.mark.behaviour("TUNE-25")
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("format", "<think>It is so.</think><answer>4</answer>", "The answer is 4."),
        ("reasoning_accuracy", "<think>2 + 2</think><answer> 4. </answer>", "<answer>5</answer>"),
        ("reasoning_accuracy", "The answer is 4", "It is 4 or so"),
        ("length", "one two three four", "one"),
        ("xml_tags", "<a><b>x</b></a>", "<a><b>x</a>"),
        ("no_repetition", "one two three four five", "one two three one two three one two three"),
        ("code_syntax", "```python\nx = 1\n```", "```python\nx = = 1\n```"),
    ],
)
def test_built_in_reward_prefers_what_it_is_for(name: str, good: str, bad: str) -> None:
    judge = REWARDS[name]
    assert judge(good, "4", TARGET) == 1.0
    assert judge(bad, "4", TARGET) < 1.0


@pytest.mark.behaviour("TUNE-25")
def test_built_in_rewards_are_those_that_requests_may_name() -> None:
    assert tuple(REWARDS) == KNOWN
    rewards = make_rewards({"reward_functions": [{"name": "length", "params": {"target_length": "2"}}]})
    assert rewards[0](["one two", "one"], answer=["a", "b"]) == [1.0, 0.5]


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    text = read_launcher("trl_trainer")
    assert text is not None
    path = tmp_path / "launcher.py"
    path.write_text(text)
    return path


def judge_with(launcher: Path, *requests: dict[str, Any]) -> list[Any]:
    lines = "".join(json.dumps(one) + "\n" for one in requests)
    ended = subprocess.run(
        [sys.executable, "-I", str(launcher), "--rewards"],
        input=lines, capture_output=True, text=True, check=True, cwd="/", env={},
    )  # fmt: skip
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.behaviour("TUNE-15")
def test_inline_reward_judges_in_a_process_of_its_own(launcher: Path) -> None:
    code = "def reward(completions, **columns):\n    return [len(one) + columns['more'][0] for one in completions]"
    answers = judge_with(launcher, {"code": code}, {"completions": ["a", "bbb"], "columns": {"more": [1]}})
    assert answers == [{"rewards": []}, {"rewards": [2.0, 4.0]}]
    assert "defines no function" in judge_with(launcher, {"code": "x = 1"})[0]["error"]


@pytest.mark.behaviour("TUNE-15")
@pytest.mark.parametrize(
    "deed",
    [
        "__import__('os').write(__import__('os').open('/tmp/corral-reward-test', 0o101), b'x')",
        "__import__('subprocess').run(['/bin/true'])",
        "bytearray(4 * 1024**3)",
    ],
)
def test_inline_reward_cannot_write_files_start_programs_or_take_all_memory(launcher: Path, deed: str) -> None:
    code = f"def reward(completions, **columns):\n    {deed}\n    return [1.0]"
    answers = judge_with(launcher, {"code": code}, {"completions": ["a"], "columns": {}})
    assert "error" in answers[-1], answers
    leftover = Path("/tmp/corral-reward-test")
    assert not leftover.exists() or not leftover.read_bytes()
    leftover.unlink(missing_ok=True)


def test_inline_reward_that_fails_ends_the_training_with_its_reason(launcher: Path, monkeypatch: Any) -> None:
    import corral.engines.launchers._trl_rewards as module  # noqa: PLC0415

    monkeypatch.setattr(module, "__file__", str(launcher))
    reward = InlineReward({"name": "my own", "code": "def reward(completions, **columns):\n    return 1 / 0"})
    with pytest.raises(TrainingError) as failed:
        reward(["a"])
    assert "ZeroDivisionError" in str(failed.value)
    assert reward.__name__ == "my_own"
    reward.close()
