"""Trains a model with TRL, or merges an adapter into its base model, and prints its progress as lines of JSON.

The request is a JSON file; what it may hold is checked by the frontend. Each line on standard output is an object:
`{"phase"}`, `{"point": {"step", "total", "epoch", "loss", …}}` after a step, `{"checkpoint": {"folder", "step"}}`
once a checkpoint lies whole on the disk, then one last line, `{"result": …}` or `{"error", "code"}`. A line `stop` on
standard input ends the training behind the present step with a checkpoint; the end of standard input ends this program.
It loads nothing from any hub, and no code that comes with a model.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from corral.engines.launchers._trl_rewards import TrainingError, finite, make_rewards, serve_rewards

# Files of a checkpoint that are not needed to go on, or that only name paths of this machine.
NEEDLESS = ("training_args.bin", "README.md")
# About how many points the curve of a training gets.
POINTS = 1000
EVALUATIONS = 10
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
METRICS = ("loss", "learning_rate", "grad_norm", "eval_loss", "reward")


def main() -> int:
    options = read_options()
    if options.rewards:
        return serve_rewards()
    # The program's own lines go to the real standard output; what libraries print does not.
    lines = LineWriter()
    make_quiet()
    try:
        if options.check:
            lines.write_text(read_versions())
            return 0
        work(options, lines)
    except TrainingError as error:
        return fail(lines, options, str(error), error.code)
    except ImportError as error:
        return fail(lines, options, f"a library of the trainer is missing: {error}", "trainer_broken")
    except Exception as error:
        return fail(lines, options, *explain(error))
    # Threads of libraries must not keep a program that is done.
    os._exit(0)


def work(options: argparse.Namespace, lines: LineWriter) -> None:
    """Do what the request says, and write the result."""
    stop = threading.Event()
    if options.watch_stdin:
        threading.Thread(target=watch_stdin, args=(stop,), name="stdin", daemon=True).start()
    request = json.loads(Path(options.request).read_text(encoding="utf-8"))
    model, output = Path(options.model), Path(options.output)
    if request.get("action") == "export":
        lines.write({"result": export(request, model, output, lines)})
    else:
        lines.write({"result": train(request, model, output, lines, stop)})


def explain(error: Exception) -> tuple[str, str]:
    """Return a sentence about an error of a library, and a code."""
    if is_disk_full(error):
        return "The disk of the node is full.", "disk_full"
    if is_out_of_memory(error):
        hint = "Train with a smaller batch, a shorter max_length, or on a node with more memory."
        return f"The memory of the node is used up. {hint}", "out_of_memory"
    return f"{type(error).__name__}: {error}"[:1000], "training_failed"


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="load the libraries, print their versions and exit")
    parser.add_argument("--rewards", action="store_true", help="serve inline reward functions on standard input")
    parser.add_argument("--model", default="", help="the folder of the base model")
    parser.add_argument("--request", default="", help="the JSON file with what to do")
    parser.add_argument("--output", default="", help="the folder to write to")
    parser.add_argument("--watch-stdin", action="store_true", help="end when standard input is closed")
    options = parser.parse_args()
    if not (options.check or options.rewards) and not (options.model and options.request and options.output):
        parser.error("--model, --request and --output are needed")
    return options


class LineWriter:
    """Writes lines of JSON to the standard output that the program was started with."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        # What libraries print must not be taken for progress.
        os.dup2(2, 1)

    def write(self, fields: dict[str, Any]) -> None:
        self.write_text(json.dumps(fields))

    def write_text(self, text: str) -> None:
        with self._lock:
            self._stream.write(text + "\n")
            self._stream.flush()

    def flush(self) -> None:
        self._stream.flush()


def make_quiet() -> None:
    """Let libraries stay off the network, out of the home folder, and show no bars."""
    os.environ.update(
        HF_HUB_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        TRANSFORMERS_OFFLINE="1",
        HF_DATASETS_OFFLINE="1",
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        TOKENIZERS_PARALLELISM="false",
        HF_HOME=str(Path.cwd() / "cache"),
        TRL_EXPERIMENTAL_SILENCE="1",
        WANDB_DISABLED="true",
    )


def read_versions() -> str:
    import datasets
    import peft
    import torch
    import transformers
    import trl

    del datasets
    found = {"trl": trl, "peft": peft, "transformers": transformers, "torch": torch}
    return ", ".join(f"{name} {module.__version__}" for name, module in found.items())


def fail(lines: LineWriter, options: argparse.Namespace, sentence: str, code: str) -> int:
    if options.check:
        print(f"error: {sentence}", file=sys.stderr, flush=True)
    else:
        lines.write({"error": sentence, "code": code})
    return 1


def watch_stdin(stop: threading.Event) -> None:
    """Note a request to stop; end this process when its standard input is closed, because its worker is gone."""
    buffer = b""
    while piece := os.read(0, 4096):
        *found, buffer = (buffer + piece).split(b"\n")
        if b"stop" in found:
            stop.set()
    os._exit(1)


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or one that has led to it, says that no space is left."""
    while error is not None:
        text = str(error)
        if isinstance(error, OSError) and error.errno in (27, 28, 122):
            return True
        if "No space left" in text or "StorageFull" in text or "File too large" in text or "file write failed" in text:
            return True
        error = error.__cause__ or error.__context__
    return False


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error) or "can't allocate memory" in str(error)


# --- training ---


def train(
    request: dict[str, Any], model_folder: Path, output: Path, lines: LineWriter, stop: threading.Event
) -> dict[str, Any]:
    lines.write({"phase": "loading_model"})
    import torch
    from transformers import TrainerCallback

    torch.set_num_threads(max(1, int(request.get("threads") or 1)))
    tokenizer = load_tokenizer(model_folder)
    model = load_model(request, model_folder, tokenizer)
    lines.write({"phase": "loading_dataset"})
    rows = prepare_rows(request, list(read_rows(Path(request["dataset"]), request["dataset_format"])), tokenizer)
    training_rows, held_out = split_rows(rows, float(request["eval_split"]), int(request["seed"]))
    progress = make_progress(TrainerCallback)(lines, stop, str(request.get("model_name") or ""))
    trainer = make_trainer(request, model, tokenizer, (training_rows, held_out), output, progress)
    lines.write({"phase": "training"})
    resume_from = str(request.get("resume_from") or "")
    began_at = time.monotonic()
    trained = trainer.train(resume_from_checkpoint=resume_from or None)
    state = trainer.state
    result = {
        "step": state.global_step,
        "total": state.max_steps,
        "epoch": state.epoch,
        "loss": finite(trained.training_loss),
        "seconds": round(time.monotonic() - began_at, 2),
        "is_stopped": stop.is_set() and state.global_step < state.max_steps,
        "examples": len(training_rows),
        "examples_held_out": len(held_out),
        "trained_parameters": sum(one.numel() for one in trainer.model.parameters() if one.requires_grad),
        "tool": read_versions(),
    }
    if held_out and not result["is_stopped"]:
        result["eval_loss"] = finite(trainer.evaluate().get("eval_loss"))
    return result


def load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise TrainingError("The tokenizer of the model has no token for the end of a text.", "unsuited_model")
    if tokenizer.chat_template is None:
        tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def load_model(request: dict[str, Any], folder: Path, tokenizer: Any) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    has_bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    # Weights of a full training stay in 32 bits: small steps would be lost in 16.
    dtype = torch.bfloat16 if has_bf16 and request["training_type"] != "full" else torch.float32
    common = {"dtype": dtype, "trust_remote_code": False, "use_safetensors": True}
    if request["training_method"] == "reward":
        model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, **common)
    else:
        model = AutoModelForCausalLM.from_pretrained(folder, **common)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.config.use_cache = False
    return model


def make_adapter_config(request: dict[str, Any]) -> Any:
    """Return the configuration of the adapter; None if all weights are trained."""
    if request["training_type"] == "full":
        return None
    from peft import LoraConfig

    modules = request["target_modules"]
    return LoraConfig(
        r=int(request["adapter_rank"]),
        lora_alpha=int(request["adapter_alpha"]),
        lora_dropout=float(request["adapter_dropout"]),
        target_modules=modules if isinstance(modules, list) and modules else "all-linear",
        task_type="SEQ_CLS" if request["training_method"] == "reward" else "CAUSAL_LM",
    )


def make_trainer(
    request: dict[str, Any],
    model: Any,
    tokenizer: Any,
    rows: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    output: Path,
    progress: Any,
) -> Any:
    import trl
    from datasets import Dataset

    method = str(request["training_method"])
    names = {"sft": "SFT", "dpo": "DPO", "grpo": "GRPO", "rloo": "RLOO", "kto": "KTO", "reward": "Reward"}
    trainer_class, config_class = (getattr(trl, names[method] + kind) for kind in ("Trainer", "Config"))
    own = {"processing_class": tokenizer}
    if method in ("grpo", "rloo"):
        own["reward_funcs"] = make_rewards(request)
    if not any("messages" in row or isinstance(row.get("prompt"), list) for row in rows[0][:1]) and method == "sft":
        # Texts as they are get no template.
        tokenizer.chat_template = None
    trainer = trainer_class(
        model=model,
        args=config_class(**make_arguments(request, len(rows[0]), len(rows[1]), output)),
        train_dataset=Dataset.from_list(rows[0]),
        eval_dataset=Dataset.from_list(rows[1]) if rows[1] else None,
        peft_config=make_adapter_config(request),
        callbacks=[progress],
        **own,
    )
    from transformers.trainer_callback import PrinterCallback, ProgressCallback

    for needless in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(needless)
    return trainer


def make_arguments(request: dict[str, Any], count: int, held_out: int, output: Path) -> dict[str, Any]:
    """Return the arguments of the trainer's configuration."""
    import torch

    has_gpu = torch.cuda.is_available()
    batch, accumulation = int(request["batch_size"]), int(request["gradient_accumulation_steps"])
    method, max_length = request["training_method"], int(request["max_length"])
    steps = int(request["max_steps"]) or math.ceil(count / batch / accumulation) * float(request["num_epochs"])
    found: dict[str, Any] = {
        "output_dir": str(output),
        "num_train_epochs": float(request["num_epochs"]),
        "max_steps": int(request["max_steps"]) or -1,
        "per_device_train_batch_size": batch,
        "per_device_eval_batch_size": batch,
        "gradient_accumulation_steps": accumulation,
        "learning_rate": float(request["learning_rate"]),
        "warmup_steps": int(request["warmup_steps"]),
        "weight_decay": float(request["weight_decay"]),
        "optim": str(request["optimizer"]),
        "seed": int(request["seed"]),
        "logging_strategy": "steps",
        "logging_steps": max(1, math.ceil(steps / POINTS)),
        "logging_first_step": True,
        "save_strategy": "steps",
        "save_steps": int(request["save_steps"]),
        "eval_strategy": "steps" if held_out else "no",
        "eval_steps": max(1, math.ceil(steps / EVALUATIONS)),
        "report_to": "none",
        "use_cpu": not has_gpu,
        "bf16": has_gpu and torch.cuda.is_bf16_supported(),
        "gradient_checkpointing": bool(request["gradient_checkpointing"]),
        "dataloader_pin_memory": has_gpu,
        "disable_tqdm": True,
    }
    if method in ("sft", "dpo", "kto", "reward"):
        found["max_length"] = max_length
    else:
        generations = int(request["num_generations"])
        # A batch holds whole groups of answers.
        found |= {"per_device_train_batch_size": generations, "per_device_eval_batch_size": generations}
        found |= {"num_generations": generations, "max_completion_length": max(8, max_length // 2)}
    return found


def make_progress(base: type) -> type:
    """Return the class of callbacks that prints the curve and the checkpoints, and ends a training that is stopped."""

    class TrainingProgressCallback(base):  # type: ignore[misc]
        """Prints what happens in a training, and ends it behind a step if that was requested."""

        def __init__(self, lines: LineWriter, stop: threading.Event, model_name: str) -> None:
            self._lines, self._stop, self._model_name = lines, stop, model_name
            self._began_at, self._first_step = 0.0, 0

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            del args, control, more
            self._began_at, self._first_step = time.monotonic(), state.global_step

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> Any:
            del args, more
            if self._stop.is_set() or state.global_step >= state.max_steps:
                control.should_save = control.should_training_stop = True
            return control

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any) -> None:
            del args, control, more
            found = {name: finite((logs or {}).get(name)) for name in METRICS if name in (logs or {})}
            if not found:
                return
            done = state.global_step - self._first_step
            rest = state.max_steps - state.global_step
            eta = (time.monotonic() - self._began_at) / done * rest if done > 0 else None
            position = {"step": state.global_step, "total": state.max_steps, "epoch": finite(state.epoch)}
            self._lines.write({"point": position | found | {"eta_seconds": None if eta is None else round(eta, 1)}})

        def on_save(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
            del control, model, more
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            tidy_checkpoint(folder, self._model_name)
            self._lines.write({"checkpoint": {"folder": folder.name, "step": state.global_step}})

    return TrainingProgressCallback


def tidy_checkpoint(folder: Path, model_name: str) -> None:
    """Remove from a checkpoint what only this machine can use."""
    for name in NEEDLESS:
        (folder / name).unlink(missing_ok=True)
    config = folder / "adapter_config.json"
    if config.is_file():
        fields = json.loads(config.read_text(encoding="utf-8"))
        fields["base_model_name_or_path"] = model_name
        config.write_text(json.dumps(fields, indent=2), encoding="utf-8")


# --- data ---


def read_rows(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the examples of a dataset. The frontend has read it once, so that it is known to be whole."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        if kind == "csv":
            csv.field_size_limit(64 * 1024 * 1024)
            yield from csv.DictReader(file)
        elif kind == "json":
            found = json.load(file)
            yield from found if isinstance(found, list) else found["data"]
        else:
            for line in file:
                if line.strip():
                    yield json.loads(line)


def prepare_rows(request: dict[str, Any], rows: Sequence[dict[str, Any]], tokenizer: Any) -> list[dict[str, Any]]:
    """Return the examples with the columns that the trainer of a method knows."""
    del tokenizer
    prepare = {"sft": prepare_example, "kto": prepare_judged, "grpo": prepare_prompt, "rloo": prepare_prompt}
    made = [prepare.get(request["training_method"], prepare_pair)(row) for row in rows]
    if len(made) < 2:
        raise TrainingError("The dataset has fewer than two examples.", "dataset_too_small")
    # All rows of a table have the columns of the first one.
    columns = list(made[0])
    if any(list(row) != columns for row in made):
        names = sorted({name for row in made for name in row})
        made = [{name: row.get(name) for name in names} for row in made]
    return made


def prepare_example(row: dict[str, Any]) -> dict[str, Any]:
    if isinstance(row.get("messages"), list):
        return {"messages": row["messages"]}
    if isinstance(row.get("conversations"), list):
        roles = {"human": "user", "gpt": "assistant"}
        turns = [(str(one.get("from", "user")), str(one.get("value", ""))) for one in row["conversations"]]
        return {"messages": [{"role": roles.get(role, role), "content": text} for role, text in turns]}
    prompt, completion = find_prompt(row), find_answer(row)
    if prompt is not None and completion is not None:
        return {"prompt": prompt, "completion": completion}
    if row.get("text"):
        return {"text": str(row["text"])}
    raise TrainingError("An example has neither text, messages nor prompt and completion.", "bad_dataset")


def prepare_pair(row: dict[str, Any]) -> dict[str, Any]:
    found = {"chosen": row["chosen"], "rejected": row["rejected"]}
    prompt = find_prompt(row)
    return found if prompt is None else {"prompt": prompt, **found}


def prepare_judged(row: dict[str, Any]) -> dict[str, Any]:
    label = row["label"]
    if isinstance(label, str):
        label = label.strip().lower() in ("true", "1", "yes", "good")
    return {"prompt": find_prompt(row) or "", "completion": find_answer(row) or "", "label": bool(label)}


def prepare_prompt(row: dict[str, Any]) -> dict[str, Any]:
    """Keep the other columns: reward functions get them."""
    return {**{name: value for name, value in row.items() if name != "prompt"}, "prompt": find_prompt(row) or ""}


def find_prompt(row: dict[str, Any]) -> Any:
    if row.get("instruction"):
        more = str(row.get("input") or "")
        return f"{row['instruction']}\n\n{more}" if more else str(row["instruction"])
    return next((row[name] for name in ("prompt", "question") if row.get(name)), None)


def find_answer(row: dict[str, Any]) -> Any:
    names = ("completion", "response", "output", "answer")
    return next((row[name] for name in names if row.get(name) is not None), None)


def split_rows(
    rows: list[dict[str, Any]], share: float, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Hold some examples back for evaluation; the same ones for the same seed, so that a resumed training trains on
    none of them."""
    import random

    count = min(len(rows) - 1, math.ceil(len(rows) * share)) if share > 0 else 0
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)  # noqa: S311 - no secret
    held = set(order[:count])
    return (
        [row for number, row in enumerate(rows) if number not in held],
        [row for number, row in enumerate(rows) if number in held],
    )


# --- export ---


def export(request: dict[str, Any], model_folder: Path, output: Path, lines: LineWriter) -> dict[str, Any]:
    """Write a whole model in 16 bits: the base model with the adapter merged into it, or the trained weights."""
    lines.write({"phase": "loading_model"})
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(max(1, int(request.get("threads") or 1)))
    checkpoint = Path(request["checkpoint"])
    is_adapter = (checkpoint / "adapter_config.json").is_file()
    common = {"dtype": torch.bfloat16, "trust_remote_code": False, "use_safetensors": True}
    model = AutoModelForCausalLM.from_pretrained(model_folder if is_adapter else checkpoint, **common)
    if is_adapter:
        from peft import PeftModel

        lines.write({"phase": "merging"})
        model = PeftModel.from_pretrained(model, checkpoint, is_trainable=False).merge_and_unload()
    lines.write({"phase": "saving"})
    output.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(output, safe_serialization=True)
    # The tokenizer as it came with the model, not as a library would write it.
    for path in model_folder.iterdir():
        is_weight = path.suffix in (".safetensors", ".bin", ".gguf", ".pt") or path.name.endswith(".index.json")
        if path.is_file() and not is_weight and not (output / path.name).exists():
            shutil.copyfile(path, output / path.name)
    return {"tool": read_versions(), "files": sorted(path.name for path in output.iterdir() if path.is_file())}


if __name__ == "__main__":
    sys.exit(main())
