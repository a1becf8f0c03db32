"""Decides about fine-tunings: settings with their defaults, sources, room, and the words for states. Pure.

Room is estimated generously: a training that runs out of memory has cost its fetches and its time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from corral.domain.errors import InvalidRequest, NotAllowed, Unprocessable
from corral.domain.fine_tuning import (
    ExportFormat,
    FineTune,
    FineTunePhase,
    FineTuneStatus,
    RunFile,
    TrainingMethod,
)
from corral.domain.model import FilePart, Model, ModelConfig, ModelFile, ModelMcpConfig
from corral.domain.run import RunNeeds, RunState
from corral.policy.quantization import FAMILIES as CONVERTED_FAMILIES
from corral.policy.quantization import HALF, make_model_name

BACKEND = "trl"
TRAINING_TYPES = ("lora", "full")
OPTIMIZERS = ("adamw_torch", "adafactor", "sgd")
REWARDS = ("format", "reasoning_accuracy", "length", "xml_tags", "no_repetition", "code_syntax")
REWARD_FUNCTIONS_MAX = 10
CODE_MAX = 20_000
# Names of settings that hold access tokens elsewhere.
_TOKENS = ("token", "api_key", "password", "secret")
# LocalAI's names for the built-in rewards.
_REWARD_NAMES = {"xml_tag": "xml_tags", "code_execution": "code_syntax"}
_GIB = 1024**3
_LIBRARIES_BYTES = 2 * _GIB
# Bytes for each trained number: itself, its gradient and two of the optimizer, in 32 bits.
_TRAINED_BYTES = 16
_STORED_BYTES = 12
# Of the numbers of a model, how many an adapter of rank 1 has, about: for a model of a billion.
_ADAPTER_SHARE = 0.0012
# A checkpoint that is written, one that is sent, and the one that it began with.
_CHECKPOINTS_ON_DISK = 3
_WEIGHT_FILE = ".safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRange:
    """The default of a setting, and the numbers that it may be."""

    default: float
    low: float
    high: float
    is_whole: bool = True


NUMBERS: Mapping[str, NumberRange] = MappingProxyType(
    {
        "adapter_rank": NumberRange(default=16, low=1, high=1024),
        "adapter_alpha": NumberRange(default=16, low=1, high=4096),
        "adapter_dropout": NumberRange(default=0.0, low=0.0, high=0.9, is_whole=False),
        "learning_rate": NumberRange(default=2e-4, low=1e-8, high=1.0, is_whole=False),
        "num_epochs": NumberRange(default=3, low=0.01, high=1000, is_whole=False),
        # 0: as many as the epochs have.
        "max_steps": NumberRange(default=0, low=0, high=10_000_000),
        "batch_size": NumberRange(default=2, low=1, high=1024),
        "gradient_accumulation_steps": NumberRange(default=4, low=1, high=1024),
        "warmup_steps": NumberRange(default=5, low=0, high=1_000_000),
        "weight_decay": NumberRange(default=0.01, low=0.0, high=1.0, is_whole=False),
        "save_steps": NumberRange(default=500, low=1, high=1_000_000),
        "seed": NumberRange(default=3407, low=0, high=2**31 - 1),
        "max_length": NumberRange(default=512, low=8, high=131_072),
        "eval_split": NumberRange(default=0.1, low=0.0, high=0.9, is_whole=False),
        "num_generations": NumberRange(default=4, low=2, high=64),
    }
)


def parse_parameters(values: Mapping[str, Any], *, allows_inline_rewards: bool) -> dict[str, Any]:
    """Return all settings of a training, defaults included. Raises `InvalidRequest` for one that cannot be used."""
    refuse_tokens(values)
    made: dict[str, Any] = {name: _parse_number(name, values.get(name), known) for name, known in NUMBERS.items()}
    made["training_method"] = str(_parse_method(values.get("training_method")))
    made["training_type"] = _parse_choice("training_type", values.get("training_type"), TRAINING_TYPES)
    made["optimizer"] = _parse_choice("optimizer", values.get("optimizer"), OPTIMIZERS)
    made["gradient_checkpointing"] = bool(values.get("gradient_checkpointing"))
    modules = values.get("target_modules") or []
    if not isinstance(modules, list) or not all(isinstance(one, str) and len(one) <= 100 for one in modules):
        raise InvalidRequest("target_modules is a list of names of layers.", code="bad_setting")
    made["target_modules"] = modules[:100]
    rewards = values.get("reward_functions") or []
    made["reward_functions"] = _parse_rewards(rewards, allows_inline=allows_inline_rewards)
    if rewards and made["training_method"] not in (TrainingMethod.GRPO, TrainingMethod.RLOO):
        raise InvalidRequest("Reward functions are for the methods grpo and rloo.", code="bad_setting")
    return made


def refuse_tokens(values: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` if a setting holds an access token: settings are stored and shown."""
    names = [*values, *(values.get("extra_options") or {})]
    found = next((name for name in names if any(one in name.lower() for one in _TOKENS)), None)
    if found is not None:
        raise InvalidRequest(
            f"A fine-tuning takes no access token, and {found[:60]!r} looks like one.",
            hint="Store it as a secret, and name the secret in the configuration of the base model.",
            code="token_refused",
        )


def _parse_number(name: str, value: Any, known: NumberRange) -> float:
    if value is None:
        value = known.default
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not known.low <= float(str(value)) <= known.high or (known.is_whole and value != int(value)):
        kind = "a whole number" if known.is_whole else "a number"
        raise InvalidRequest(
            f"{name} is {kind} from {known.low:g} to {known.high:g}, and {str(value)[:40]!r} is none.",
            code="bad_setting",
        )
    return int(value) if known.is_whole else float(value)


def _parse_method(value: object) -> TrainingMethod:
    names = tuple(TrainingMethod)
    if value == "orpo":
        raise InvalidRequest(
            "The trainer has no method orpo any more.", hint="Choose dpo: it takes the same rows.", code="bad_setting"
        )
    return TrainingMethod(_parse_choice("training_method", value, names))


def _parse_choice(name: str, value: object, known: Sequence[str]) -> str:
    text = known[0] if value in (None, "") else str(value).lower()
    if text not in known:
        raise InvalidRequest(f"{name} is one of {', '.join(known)}, not {text[:40]!r}.", code="bad_setting")
    return text


def _parse_rewards(values: object, *, allows_inline: bool) -> list[dict[str, Any]]:
    if not isinstance(values, list) or len(values) > REWARD_FUNCTIONS_MAX:
        raise InvalidRequest(f"reward_functions is a list of at most {REWARD_FUNCTIONS_MAX}.", code="bad_setting")
    return [_parse_reward(one, allows_inline=allows_inline) for one in values]


def _parse_reward(value: object, *, allows_inline: bool) -> dict[str, Any]:
    fields = {"name": value} if isinstance(value, str) else value
    if not isinstance(fields, Mapping):
        raise InvalidRequest("A reward function is a name, or an object with one.", code="bad_setting")
    name = str(fields.get("name") or "")
    if fields.get("type") == "inline":
        return _parse_inline(fields, name, allows_inline=allows_inline)
    short = name.removesuffix("_reward")
    known = _REWARD_NAMES.get(short, short)
    if known not in REWARDS:
        raise InvalidRequest(
            f"There is no reward function {name[:60]!r}.",
            hint=f"Built in are: {', '.join(REWARDS)}.",
            code="unknown_reward",
        )
    target = (fields.get("params") or {}).get("target_length") if isinstance(fields.get("params"), Mapping) else None
    if target is not None and not (str(target).isdigit() and 0 < int(str(target)) <= 100_000):
        raise InvalidRequest("target_length is a number of words.", code="bad_setting")
    return {"name": known} | ({"params": {"target_length": str(target)}} if target is not None else {})


def _parse_inline(fields: Mapping[str, Any], name: str, *, allows_inline: bool) -> dict[str, Any]:
    if not allows_inline:
        raise NotAllowed(
            "Inline reward functions are not allowed in this cluster: their code would run on its nodes.",
            hint="Use the built-in ones, or have the operator set `allow_inline_rewards`.",
            code="inline_rewards_off",
        )
    code = str(fields.get("code") or "")
    if not code.strip() or len(code) > CODE_MAX:
        raise InvalidRequest(
            f"An inline reward function has code, of at most {CODE_MAX} characters.", code="bad_setting"
        )
    try:
        compile(code, "reward", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"The code of an inline reward function is broken: {error}"[:500], code="bad_setting"
        ) from None
    return {"type": "inline", "name": name[:50] or "inline", "code": code}


# --- sources ---


def require_source(model: Model) -> None:
    """Raise `Unprocessable` for a model that cannot be trained: one without safetensors or configuration."""
    files = model.files
    paths = [file.path for file in files] if files is not None else [file.path for file in model.config.files]
    names = {PurePosixPath(path).name for path in paths}
    is_whole = files is None and any(path.endswith("/") or not path for path in paths)
    if is_whole or (any(name.endswith(_WEIGHT_FILE) for name in names) and "config.json" in names):
        return
    reason = "GGUF files" if any(name.endswith(".gguf") for name in names) else "no safetensors files with config.json"
    raise Unprocessable(
        f"{model.name} has {reason}; a training needs a model with config.json, tokenizer and safetensors.",
        hint="Add the model as it was published, not a quantised copy of it.",
        code="not_trainable",
    )


def find_model_folder(model: Model) -> str:
    """Return the folder below the model's folder in which its configuration lies."""
    paths = sorted((file.path for file in model.files or () if PurePosixPath(file.path).name == "config.json"), key=len)
    return str(PurePosixPath(paths[0]).parent) if paths else "."


def count_parameters(model: Model, source_bytes: int | None) -> int | None:
    known = model.facts.parameters if model.facts is not None else None
    size_bytes = model.payload_bytes or source_bytes
    return known or (size_bytes // 2 if size_bytes else None)


def compute_needs(
    model: Model, source_bytes: int | None, dataset_bytes: int, parameters: Mapping[str, Any]
) -> RunNeeds:
    """Return what a node must have free for a training: for the GPU what is trained, or in RAM without one."""
    count = count_parameters(model, source_bytes)
    size_bytes = model.payload_bytes or source_bytes
    if count is None or size_bytes is None:
        return RunNeeds()
    trained = count
    if parameters["training_type"] != "full":
        # Larger models have fewer rows for each of their weights.
        share = _ADAPTER_SHARE * math.sqrt(1e9 / max(count, 1_000_000))
        trained = int(min(count, count * share * parameters["adapter_rank"]))
    tokens = parameters["batch_size"] * parameters["max_length"]
    # What a step keeps grows with the tokens and with the root of the model.
    activations = int(tokens * 400 * math.sqrt(count))
    checkpoint = trained * _STORED_BYTES
    return RunNeeds(
        disk_bytes=size_bytes + dataset_bytes + _CHECKPOINTS_ON_DISK * checkpoint + 64 * 1024**2,
        ram_bytes=_LIBRARIES_BYTES // 2 + 2 * dataset_bytes,
        vram_bytes=count * 4 + trained * _TRAINED_BYTES + activations,
    )


def compute_export_needs(model: Model, checkpoint_bytes: int) -> RunNeeds:
    """Return what a node must have free to make a whole model of a checkpoint."""
    count = count_parameters(model, None)
    if count is None or model.payload_bytes is None:
        return RunNeeds()
    whole = count * 2
    return RunNeeds(
        disk_bytes=model.payload_bytes + checkpoint_bytes + whole + 64 * 1024**2,
        ram_bytes=_LIBRARIES_BYTES // 2 + count * 4,
    )


# --- results ---

# Files of a checkpoint that are the adapter; the others are for going on.
ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")
_STATE_SUFFIXES = (".pt", ".pth")
_STATE_FILES = ("trainer_state.json",)


def choose_adapter_files(files: Sequence[RunFile]) -> list[RunFile]:
    """Return the files of the adapter of a checkpoint. Raises `Unprocessable` if all weights were trained."""
    found = [file for file in files if file.path in ADAPTER_FILES]
    if len(found) < len(ADAPTER_FILES):
        raise Unprocessable(
            "This training has no adapter: it has changed all weights.",
            hint=f"Export it as {ExportFormat.MERGED_16BIT}.",
            code="no_adapter",
        )
    return found


def choose_result_files(files: Sequence[RunFile]) -> list[RunFile]:
    """Return the files of a checkpoint that are of use without the trainer."""
    return [file for file in files if not file.path.endswith(_STATE_SUFFIXES) and file.path not in _STATE_FILES]


def make_export_name(model: str, job_id: str) -> str:
    """Return the name that an export gets by default."""
    return f"{model[:200]}-ft-{job_id.replace('-', '')[-8:]}"


def make_merged_name(name: str) -> str:
    """Return the name of the whole model that a quantised export is made from."""
    return f"{name[:240]}-16bit"


def make_result_config(model: Model, name: str, files: Sequence[RunFile]) -> ModelConfig:
    """Return the configuration of the model that an export becomes: that of its base, with the other files."""
    return replace(
        model.config,
        name=name,
        files=tuple(
            ModelFile(path=file.path, parts=(FilePart(uri=f"upload:{file.sha256}"),), sha256=file.sha256)
            for file in files
        ),
        entry="",
        vram_bytes=None,
        ram_bytes=None,
        aliases=(),
        is_enabled=True,
        is_pinned=False,
        gallery="",
        variant="",
        is_variant_pinned=False,
        mcp=ModelMcpConfig(),
    )


def describe_adapter(name: str, base: Model | None, method: TrainingMethod, gguf_name: str) -> str:
    """Return what an exported adapter is, and which command makes it answer. `base`: None if it was deleted meanwhile;
    `gguf_name`: a GGUF model of it, if there is one."""
    text = f"The export is the model {name}."
    if base is None:
        return text
    family = base.facts.architecture if base.facts is not None else ""
    if method is TrainingMethod.REWARD or (family and family not in CONVERTED_FAMILIES):
        return text
    if gguf_name:
        return f"{text} Put it on {gguf_name}: corral quantize {name} --type {HALF} --base {gguf_name}"
    made = make_model_name(base.name, HALF)
    return (
        f"{text} To ask it with llama.cpp, make a GGUF model of its base (corral quantize {base.name} --type {HALF}),"
        f" then put it on that: corral quantize {name} --type {HALF} --base {made}"
    )


def parse_export_format(text: str) -> ExportFormat:
    if text == "merged_4bit":
        raise InvalidRequest(
            "No trainer of this cluster merges to 4 bits.", hint="Export gguf with the type q4_k_m.", code="bad_setting"
        )
    return ExportFormat(_parse_choice("export_format", text, tuple(ExportFormat)))


def parse_checkpoint(text: str) -> tuple[str, int | None]:
    """Return the job and the step of a text such as `ID/checkpoint-20`; without a step the newest is meant."""
    job_id, _, name = text.strip().partition("/")
    if not name:
        return job_id, None
    return job_id, parse_step(name)


def parse_step(name: str) -> int:
    number = name.removeprefix("checkpoint-")
    if not number.isdigit() or len(number) > 9:
        raise InvalidRequest(
            f"{name[:60]!r} is no checkpoint.", hint="A checkpoint is named like checkpoint-20.", code="bad_checkpoint"
        )
    return int(number)


# --- progress ---

_PERCENT = {
    FineTunePhase.DOWNLOADING: (0.0, 5.0),
    FineTunePhase.LOADING_MODEL: (5.0, 7.0),
    FineTunePhase.LOADING_DATASET: (7.0, 8.0),
    FineTunePhase.TRAINING: (8.0, 97.0),
    FineTunePhase.MERGING: (10.0, 60.0),
    FineTunePhase.SAVING: (97.0, 99.0),
}
_STATUS_OF_PHASE = {
    # LocalAI has no words for these two.
    FineTunePhase.DOWNLOADING: FineTuneStatus.LOADING_MODEL,
    FineTunePhase.MERGING: FineTuneStatus.SAVING,
    FineTunePhase.LOADING_MODEL: FineTuneStatus.LOADING_MODEL,
    FineTunePhase.LOADING_DATASET: FineTuneStatus.LOADING_DATASET,
    FineTunePhase.TRAINING: FineTuneStatus.TRAINING,
    FineTunePhase.SAVING: FineTuneStatus.SAVING,
}
_END_STATUS = {
    RunState.COMPLETED: FineTuneStatus.COMPLETED,
    RunState.CANCELLED: FineTuneStatus.STOPPED,
    RunState.FAILED: FineTuneStatus.FAILED,
    RunState.LOST: FineTuneStatus.FAILED,
}


def compute_percent(phase: FineTunePhase, fraction: float) -> float:
    """Return how far a fine-tuning is, 0 to 100, when so much of a phase is done, 0 to 1."""
    low, high = _PERCENT[phase]
    return round(low + (high - low) * min(1.0, max(0.0, fraction)), 1)


def find_status(job: FineTune) -> FineTuneStatus:
    """Return the state of a job in LocalAI's words."""
    ended = _END_STATUS.get(job.run_state)
    if ended is not None:
        return ended
    if job.phase not in set(FineTunePhase) or job.run_state is RunState.QUEUED:
        return FineTuneStatus.QUEUED
    return _STATUS_OF_PHASE[FineTunePhase(job.phase)]


def make_request(parameters: Mapping[str, Any], **more: Any) -> str:
    """Return the text of the file by which a worker tells the trainer what to do."""
    return json.dumps({**parameters, **more})
