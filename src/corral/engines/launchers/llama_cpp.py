"""Runs llama.cpp's own HTTP server, as the xllamacpp package brings it, on one GGUF file.

The parameters of the package change from version to version. The required ones must exist, under one of their names;
the others are set where they exist and reported where they do not, so that one launcher serves versions years apart.
While the model loads, `/health` is 503. SIGTERM ends it at once; with exit code 0, once it has loaded.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

# A wait without a timeout does not see a signal that another thread received.
LOOK_EVERY_S = 0.5
POOLING = ("mean", "cls", "last", "rank", "none")


def main() -> int:
    options = read_options()
    try:
        import xllamacpp
    except ImportError as error:
        print(f"error: the engine cannot be loaded: {error}", file=sys.stderr, flush=True)
        return 1
    if options.check:
        return check_engine(xllamacpp)
    parameters = xllamacpp.CommonParams()
    fill_parameters(xllamacpp, parameters, options)
    # The constructor returns with the model loaded, and lets no Python run until then, a signal handler neither.
    try:
        server = xllamacpp.Server(parameters)  # noqa: F841 - it serves as long as it is held
    except RuntimeError as error:
        print(f"error: the model cannot be served: {error}", file=sys.stderr, flush=True)
        return 1
    stop_requested = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stop_requested.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"ready: {options.name or options.model} at {options.host}:{options.port}", file=sys.stderr, flush=True)
    while not stop_requested.wait(LOOK_EVERY_S):
        pass
    # There is nothing to save, and taking the server apart has been seen to wait for ever on a busy machine.
    sys.stderr.flush()
    os._exit(0)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="load the engine, print its version and exit")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="", help="the GGUF file")
    parser.add_argument("--name", default="", help="the model's public name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--api-key-env", default="", help="the variable that holds the key that callers must send")
    parser.add_argument("--context-size", type=int, default=0, help="tokens of one conversation; 0: what the model has")
    parser.add_argument("--parallel", type=int, default=1, help="conversations at a time")
    parser.add_argument("--batch-size", type=int, default=0, help="tokens of a prompt that are computed at a time")
    parser.add_argument("--gpu-layers", type=int, default=-1, help="layers that go to the GPU; -1: all that fit")
    parser.add_argument("--embeddings", type=parse_switch, default=False, help="serve embeddings instead of chats")
    parser.add_argument("--rerank", type=parse_switch, default=False, help="serve reranking instead of chats")
    parser.add_argument("--pooling", choices=POOLING, default=None, help="how embeddings become one; the model knows")
    parser.add_argument("--prompt-cache-mib", type=int, default=256, help="memory for prompts that left their slot")
    parser.add_argument("--adapter", action="append", default=[], help="a LoRA adapter; requests choose it by number")
    parser.add_argument("--projector", default="", help="the file that lets the model see or hear")
    options = parser.parse_args()
    if not options.check and (not options.model or not options.port):
        parser.error("--model and --port are needed")
    if not options.check and not os.path.isfile(options.model):  # noqa: PTH113 - a launcher keeps its imports few
        parser.error(f"there is no file {options.model}")
    if options.parallel < 1 or options.threads < 1 or options.context_size < 0:
        parser.error("--parallel and --threads begin at 1, --context-size at 0")
    return options


def parse_switch(text: str) -> bool:
    """Parse a switch: settings of a model are texts."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def check_engine(engine: Any) -> int:
    if not hasattr(engine.Server, "listening_address"):
        print("error: this version has no HTTP server", file=sys.stderr, flush=True)
        return 1
    print(getattr(engine, "__version__", "unknown"), flush=True)
    return 0


def fill_parameters(engine: Any, parameters: Any, options: argparse.Namespace) -> None:
    """Set the parameters of the server from the options."""
    parameters.model.path = options.model
    parameters.port = options.port
    if hasattr(parameters, "hostnames"):
        parameters.hostnames = [options.host]
    else:
        parameters.hostname = options.host
    for processor in (parameters.cpuparams, parameters.cpuparams_batch):
        processor.n_threads = options.threads
    # The server shares its context out among the conversations.
    parameters.n_ctx = options.context_size * options.parallel
    parameters.n_parallel = options.parallel
    parameters.n_gpu_layers = options.gpu_layers
    parameters.endpoint_metrics = True
    parameters.embedding = options.embeddings or options.rerank
    if options.api_key_env:
        parameters.api_keys = [read_key(options.api_key_env)]
    if options.name:
        parameters.model_alias = {options.name}
    if options.batch_size:
        parameters.n_batch = options.batch_size
    if parameters.embedding:
        # An embedding is computed in one piece.
        parameters.n_ubatch = parameters.n_batch
    add_adapters(engine, parameters, options)
    if options.projector:
        parameters.mmproj.path = options.projector
    pooling = "rank" if options.rerank else options.pooling
    if pooling:
        parameters.pooling_type = getattr(engine.llama_pooling_type, f"LLAMA_POOLING_TYPE_{pooling.upper()}")
    for name, value in (
        ("endpoint_slots", True),
        ("cache_ram_mib", options.prompt_cache_mib),
        ("offline", True),
    ):
        set_if_known(parameters, name, value)
    # The web page is switched off by its new name and by its old one.
    set_if_known(parameters, "ui" if hasattr(parameters, "ui") else "webui", value=False)


def add_adapters(engine: Any, parameters: Any, options: argparse.Namespace) -> None:
    """Have the adapters loaded with the model. Each request says which one it is for; without a word it is none."""
    if options.adapter:
        # An earlier prompt in that cache does not know with which adapter it was computed.
        options.prompt_cache_mib = 0
        parameters.lora_init_without_apply = True
        parameters.lora_adapters = [engine.CommonAdapterLoraInfo(path, 0.0) for path in options.adapter]


def set_if_known(parameters: Any, name: str, value: object) -> None:
    """Set a parameter that this version knows, and report one that it does not."""
    if hasattr(parameters, name):
        setattr(parameters, name, value)
    else:
        print(f"note: this version has no parameter {name}", file=sys.stderr, flush=True)


def read_key(variable: str) -> str:
    key = os.environ.pop(variable, "")
    if not key:
        # Without a key the server would answer everyone.
        print(f"error: {variable} is empty, so there is no key to check", file=sys.stderr, flush=True)
        raise SystemExit(1)
    return key


if __name__ == "__main__":
    sys.exit(main())
