"""A trainer without a library: it speaks the lines of `trl_trainer`, and its weights are text.

A step waits while a file `hold-STEP` lies in the folder `--marks`, and the training fails behind a step with a file
`fail-STEP`. The loss falls with each step.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any


def write(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def watch(stop: threading.Event) -> None:
    while piece := os.read(0, 4096):
        if b"stop" in piece:
            stop.set()
    os._exit(1)


def main() -> None:
    values = dict(one.removeprefix("--").split("=", 1) for one in sys.argv[1:] if "=" in one)
    stop = threading.Event()
    threading.Thread(target=watch, args=(stop,), daemon=True).start()
    request = json.loads(Path(values["request"]).read_text())
    marks, output = Path(values["marks"]), Path(values["output"])
    # What tests look at afterwards: the request of the latest program.
    (marks / "request.json").write_text(json.dumps(request))
    assert (Path(values["model"]) / "config.json").is_file()
    if request["action"] == "export":
        export(request, output)
    else:
        train(request, output, marks, stop)


def train(request: dict[str, Any], output: Path, marks: Path, stop: threading.Event) -> None:
    write({"phase": "loading_model"})
    write({"phase": "loading_dataset"})
    examples = len(Path(request["dataset"]).read_text().splitlines())
    step, total = 0, int(request["max_steps"])
    if request["resume_from"]:
        step = json.loads((Path(request["resume_from"]) / "trainer_state.json").read_text())["global_step"]
    write({"phase": "training"})
    while step < total and not stop.is_set():
        step += 1
        while (marks / f"hold-{step}").exists() and not stop.is_set():
            stop.wait(0.02)
        write({"point": {"step": step, "total": total, "epoch": step / total, "loss": 5.0 / step, "eta_seconds": 0.0}})
        if (marks / f"fail-{step}").exists():
            write({"error": "The disk of the node is full.", "code": "disk_full"})
            os._exit(1)
        if step % int(request["save_steps"]) == 0 or step == total or stop.is_set():
            save(output / f"checkpoint-{step}", step)
            write({"checkpoint": {"folder": f"checkpoint-{step}", "step": step}})
    write({"result": {"step": step, "total": total, "is_stopped": step < total, "examples": examples, "loss": 1.0}})
    os._exit(0)


def save(folder: Path, step: int) -> None:
    folder.mkdir(parents=True)
    (folder / "adapter_model.safetensors").write_text(f"weights behind step {step}")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 16}))
    (folder / "optimizer.pt").write_text(f"moments behind step {step}")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def export(request: dict[str, Any], output: Path) -> None:
    write({"phase": "merging"})
    weights = (Path(request["checkpoint"]) / "adapter_model.safetensors").read_text()
    output.mkdir(exist_ok=True)
    # A whole file in its format, because its header is read.
    header = {"__metadata__": {"note": f"merged {weights}"}}
    header["lm_head.weight"] = {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}  # type: ignore[dict-item]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (output / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    (output / "config.json").write_text("{}")
    (output / "tokenizer.json").write_text("{}")
    write({"result": {"files": []}})
    os._exit(0)


if __name__ == "__main__":
    main()
