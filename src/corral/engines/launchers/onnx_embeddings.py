"""Serves a sentence encoder in ONNX as OpenAI's embeddings: a folder with model.onnx and tokenizer.json.

Tokens are averaged where the model has not done so itself, and every vector has length 1. Texts are computed in batches
of similar length. A text that is too long for the model is refused: half of it would be the embedding of another text.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hmac
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BODY_LIMIT_BYTES = 16 << 20
INPUTS_MAX = 2048


def main() -> int:
    parser = common_options((__doc__ or "").splitlines()[0])
    parser.add_argument("--context-size", type=int, default=512, help="tokens of one text at most")
    parser.add_argument("--batch-size", type=int, default=32, help="texts that are computed at a time")
    options = parser.parse_args()
    try:
        import onnxruntime
        import tokenizers  # noqa: F401 - a check is to find what is missing
    except ImportError as error:
        print(f"error: the engine cannot be loaded: {error}", file=sys.stderr, flush=True)
        return 1
    if options.check:
        print(onnxruntime.__version__, flush=True)
        return 0
    serve(options, partial(Encoder.load, options), {"/v1/embeddings": embed})
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    session: Any
    tokenizer: Any
    context_size: int
    batch_size: int

    @classmethod
    def load(cls, options: argparse.Namespace) -> Encoder:
        import onnxruntime
        import tokenizers

        path = Path(options.model)
        folder = path if path.is_dir() else path.parent
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        limits = onnxruntime.SessionOptions()
        limits.intra_op_num_threads = options.threads
        limits.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            str(path / "model.onnx" if path.is_dir() else path), limits, providers=["CPUExecutionProvider"]
        )
        return cls(
            session=session, tokenizer=tokenizer, context_size=options.context_size, batch_size=options.batch_size
        )

    def encode(self, inputs: list[str] | list[list[int]]) -> tuple[list[Any], int]:
        """A vector for each input, and the tokens of all."""
        tokens = [self.tokenizer.encode(item).ids if isinstance(item, str) else item for item in inputs]
        for place, ids in enumerate(tokens):
            if len(ids) > self.context_size:
                what = f"input {place} has {len(ids)} tokens; the model takes {self.context_size}."
                raise Refused(400, what, "context_length_exceeded")
            if max(ids, default=0) >= self.tokenizer.get_vocab_size():
                raise Refused(400, f"input {place} has a token that the model does not know.")
        order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]))
        vectors: list[Any] = [None] * len(tokens)
        for start in range(0, len(order), self.batch_size):
            places = order[start : start + self.batch_size]
            for place, vector in zip(places, self._batch([tokens[place] for place in places]), strict=True):
                vectors[place] = vector
        return vectors, sum(map(len, tokens))

    def _batch(self, tokens: list[list[int]]) -> Any:
        import numpy as np

        width = max(map(len, tokens))
        ids = np.zeros((len(tokens), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {given.name: known[given.name] for given in self.session.get_inputs()}
        output = self.session.run(None, feed)[0]
        if output.ndim == 3:
            weights = mask[..., None].astype(output.dtype)
            output = (output * weights).sum(axis=1) / weights.sum(axis=1)
        return (output / np.maximum(np.linalg.norm(output, axis=1, keepdims=True), 1e-12)).astype("<f4")


async def embed(desk: Desk, request: web.Request) -> web.Response:
    try:
        wish = await request.json()
    except ValueError:
        wish = None
    if not isinstance(wish, dict):
        raise Refused(400, "The body is not a JSON object.")
    inputs = inputs_of(wish.get("input"))
    form = wish.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise Refused(400, "encoding_format is neither float nor base64.")
    vectors, tokens = await desk.work(Encoder.encode, inputs)
    wanted, width = wish.get("dimensions"), len(vectors[0])
    if wanted is not None and wanted != width:
        raise Refused(400, f"This model has {width} dimensions and cannot give {wanted}.")
    data = [
        {"object": "embedding", "index": place, "embedding": written(vector, form)}
        for place, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return web.json_response({"object": "list", "model": desk.name, "data": data, "usage": usage})


def inputs_of(value: object) -> list[str] | list[list[int]]:
    """A text, tokens, or a list of either: always as a list."""
    if isinstance(value, str) or (isinstance(value, list) and value and all(is_token(item) for item in value)):
        value = [value]
    if not isinstance(value, list) or not 0 < len(value) <= INPUTS_MAX:
        raise Refused(400, f"input is neither a text nor a list of 1 to {INPUTS_MAX} of them.")
    if all(isinstance(item, str) and item for item in value):
        return value
    if all(isinstance(item, list) and item and all(is_token(token) for token in item) for item in value):
        return value
    raise Refused(400, "input has something that is neither a text nor a list of tokens, or is empty.")


def is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def written(vector: Any, form: str) -> Any:
    return vector.tolist() if form == "float" else base64.b64encode(vector.tobytes()).decode()


# ---- serving: the same text in every launcher of an engine without a server of its own; a test compares them ----
WAITING_MAX = 64
GRACE_S = 10.0


class Refused(Exception):
    """A call that gets an error in OpenAI's shape."""

    def __init__(self, status: int, message: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.status, self.code = status, code

    def answer(self) -> web.Response:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": None, "code": self.code}
        headers = {"Retry-After": "1"} if self.status == 503 else None
        return web.json_response({"error": error}, status=self.status, headers=headers)


class Desk:
    """Lets in who has the key, `parallel` at a time, the others in a line of limited length; counts them all."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.name = options.name or Path(options.model).name
        self.key = key_from(options.api_key_env)
        self.engine: Any = None
        self.running = self.waiting = self.served = self.failed = 0
        self._turns = asyncio.Semaphore(options.parallel)
        self._pool = ThreadPoolExecutor(options.parallel)

    async def load(self, load: Callable[[], Any]) -> None:
        loading = asyncio.get_running_loop().run_in_executor(self._pool, load)
        await asyncio.wait([loading])
        if fault := loading.exception():
            print(f"error: the model cannot be loaded: {fault}", file=sys.stderr, flush=True)
            os._exit(1)
        self.engine = loading.result()
        print(f"ready: {self.name}", file=sys.stderr, flush=True)

    async def work(self, call: Callable[..., Any], *arguments: object) -> Any:
        """The result of a call that computes; it runs in a thread."""
        if self.engine is None:
            raise Refused(503, "Loading model", "loading")
        if self.waiting >= WAITING_MAX:
            raise Refused(503, f"{WAITING_MAX} calls are waiting already.", "overloaded")
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            return await self._computed(call, *arguments)
        finally:
            self.running -= 1
            self._turns.release()

    async def _computed(self, call: Callable[..., Any], *arguments: object) -> Any:
        computing = asyncio.get_running_loop().run_in_executor(self._pool, call, self.engine, *arguments)
        await asyncio.wait([computing])
        fault = computing.exception()
        if fault is None or isinstance(fault, Refused):
            return computing.result()
        traceback.print_exception(fault)
        raise Refused(500, "The engine failed at this call; its log says how.", "internal") from fault

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.key and request.path != "/health" and not hmac.compare_digest(shown.encode(), self.key.encode()):
            return Refused(401, "The key is missing or wrong.", "invalid_api_key").answer()
        try:
            answer = await handler(request)
        except Refused as refused:
            self.failed += 1
            return refused.answer()
        except web.HTTPException as error:
            return Refused(error.status, f"{error.reason}: {request.method} {request.path}", "http").answer()
        self.served += request.method == "POST"
        return answer

    async def health(self, _request: web.Request) -> web.Response:
        if self.engine is None:
            return Refused(503, "Loading model", "loading").answer()
        return web.json_response({"status": "ok"})

    async def models(self, _request: web.Request) -> web.Response:
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "corral"}
        return web.json_response({"object": "list", "data": [model]})

    async def metrics(self, _request: web.Request) -> web.Response:
        numbers = {
            "corral_engine_requests_processing": ("gauge", self.running),
            "corral_engine_requests_waiting": ("gauge", self.waiting),
            "corral_engine_requests_total": ("counter", self.served),
            "corral_engine_requests_failed_total": ("counter", self.failed),
        }
        lines = [f"# TYPE {name} {kind}\n{name} {value}\n" for name, (kind, value) in numbers.items()]
        return web.Response(text="".join(lines), headers={"Content-Type": "text/plain; version=0.0.4"})


def key_from(variable: str) -> str:
    """The key that callers must show; a variable that was named and is empty must not open the door."""
    key = os.environ.pop(variable, "") if variable else ""
    if variable and not key:
        print(f"error: {variable} is empty, so there is no key to check", file=sys.stderr, flush=True)
        raise SystemExit(1)
    return key


def common_options(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="load the engine, print its version and end")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="")
    parser.add_argument("--name", default="", help="the model's public name")
    parser.add_argument("--threads", type=int, default=1, help="of one call")
    parser.add_argument("--parallel", type=int, default=1, help="calls at a time")
    parser.add_argument("--api-key-env", default="", help="the variable that holds the key which callers must show")
    return parser


def serve(options: argparse.Namespace, load: Callable[[], Any], routes: Mapping[str, Callable[..., Any]]) -> None:
    """Answer until SIGTERM; then what runs may end, and a load that is under way is dropped."""
    desk = Desk(options)
    app = web.Application(middlewares=[desk.guard], client_max_size=BODY_LIMIT_BYTES)
    app.add_routes([web.get("/health", desk.health), web.get("/v1/models", desk.models)])
    app.add_routes([web.get("/metrics", desk.metrics)])
    app.add_routes([web.post(path, partial(handler, desk)) for path, handler in routes.items()])

    async def start(app: web.Application) -> None:
        app["loading"] = asyncio.create_task(desk.load(load))

    app.on_startup.append(start)
    web.run_app(app, host=options.host, port=options.port, print=None, shutdown_timeout=GRACE_S)
    os._exit(0)


# ---- end of serving ----


if __name__ == "__main__":
    sys.exit(main())
