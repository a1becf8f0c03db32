"""An engine that generates text without a model, with the API and timing of a real one: for tests, benchmarks and
demos.

It speaks OpenAI's chat, completions and embeddings. A text is made from the model's name and the prompt: the same call
gets the same answer on every machine, and another model gives another one. Time passes as it would: prompts take their
time, tokens come at a rate, calls wait for a slot, and a prompt whose beginning is still in the cache is read faster.
It fails in the ways in which engines fail, if configured by flags or, with --control=true, by POST /_control.

A chat calls a tool when its last message is the user's and has a line `call NAME {"argument": …}` with the name of one
of the tools. To the output of a tool it answers with that output. Several choices (`n`, or a list of prompts) are
reported as llama.cpp does: the usage of a whole answer is that of the first choice, in a stream each has its own.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import math
import os
import re
import socket
import struct
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from aiohttp import web

from corral.engines.launchers._engine_server import GRACE_S, ApiError, Handler, read_key

BODY_LIMIT_BYTES = 16 << 20
QUEUE_MAX = 1024
DIMENSIONS = 64
NUMBER_TYPES: dict[str, type[int] | type[float]] = {"int": int, "float": float}
WORDS = (
    "amber birch cedar delta ember fern grove harbor island juniper kelp lagoon meadow nectar orchid pebble quartz "
    "river saddle timber umber valley willow yarrow zephyr barn colt ditch fence gate hay lasso mare oats paddock"
)
LEXICON = tuple(WORDS.split())
TOKEN = re.compile(r"\w+|[^\w\s]")
# Splits a text into pieces that make it up again.
PIECE = re.compile(r"\s*\S+|\s+$")
TOOL_CALL = re.compile(r"^call ([\w-]+) (\{.*\})$", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class FakeBehaviour:
    """How the fake engine for tests behaves, changeable while it runs: speed, limits and failures. 0 means none."""

    tokens_per_s: float = field(default=0.0, metadata={"help": "of each answer; 0: all at once"})
    prompt_s: float = field(default=0.0, metadata={"help": "seconds for 1,000 tokens of a prompt that is not cached"})
    slots: int = field(default=4, metadata={"help": "answers at a time; the other calls wait"})
    context_size: int = field(default=8192, metadata={"help": "tokens of a prompt and its answer at most"})
    cache_block: int = field(default=16, metadata={"help": "tokens of a block of the prefix cache"})
    cache_blocks: int = field(default=4096, metadata={"help": "blocks that the prefix cache holds"})
    memory_mib: int = field(default=0, metadata={"help": "memory to hold"})
    health_s: float = field(default=0.0, metadata={"help": "seconds that /health takes to answer"})
    fail_every: int = field(default=0, metadata={"help": "every n-th call gets 500"})
    crash_after: int = field(default=0, metadata={"help": "dies in the middle of its n-th answer"})
    hang: int = field(default=0, metadata={"help": "1: calls get no answer until it is 0 again"})
    stall_after: int = field(default=0, metadata={"help": "answers stop after n tokens until it is 0 again"})

    def change(self, changes: dict[str, Any]) -> None:
        known = {item.name: NUMBER_TYPES[str(item.type)] for item in fields(self)}
        for name, value in changes.items():
            if name not in known:
                raise ApiError(400, f"{name} is not one of {', '.join(known)}.")
            if not isinstance(value, (int, known[name])) or isinstance(value, bool) or value < 0:
                raise ApiError(400, f"{name} is not a number from 0.")
        for name, value in changes.items():
            setattr(self, name, known[name](value))


class SlotQueue:
    """Lets as many calls of the fake engine run at a time as its behaviour says; the others wait in order."""

    def __init__(self, behaviour: FakeBehaviour) -> None:
        self._behaviour = behaviour
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        if self.waiting >= QUEUE_MAX:
            raise ApiError(503, f"{QUEUE_MAX} calls are waiting already.", "overloaded")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        self.start_next()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self.running -= 1
            elif turn in self._waiters:
                self._waiters.remove(turn)
            self.start_next()

    def start_next(self) -> None:
        while self._waiters and self.running < self._behaviour.slots:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                self.running += 1


class PromptPrefixCache:
    """Imitates the prompt cache of an engine in the fake engine.

    Remembers which beginnings of prompts were read, in blocks of tokens; drops the least recently used.
    """

    def __init__(self, behaviour: FakeBehaviour) -> None:
        self._behaviour = behaviour
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def clear(self) -> None:
        self._blocks.clear()

    def count_cached(self, tokens: list[str]) -> int:
        """Return how many tokens from the beginning need not be read again. The last one always is."""
        known = 0
        for block in self._hash_blocks(tokens):
            if block not in self._blocks:
                break
            known += 1
        return max(0, min(known * self._behaviour.cache_block, len(tokens) - 1))

    def store(self, tokens: list[str]) -> None:
        # From the end: without its beginning the rest of a prompt is useless.
        for block in reversed(self._hash_blocks(tokens)):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._behaviour.cache_blocks:
            self._blocks.popitem(last=False)

    def _hash_blocks(self, tokens: list[str]) -> list[bytes]:
        size, chain, last = self._behaviour.cache_block, [], b""
        for start in range(0, len(tokens) - size + 1 if size else 0, size or 1):
            last = compute_digest(last, " ".join(tokens[start : start + size]))
            chain.append(last)
        return chain


@dataclass(slots=True, kw_only=True)
class FakeCompletion:
    """One completion that the fake engine is generating: its prompt, words, and how long it took."""

    prompt: list[str]
    # Words with the blanks between them.
    words: list[str]
    finish: str
    # The tool that is called; the words are the arguments then.
    tool: str = ""
    index: int = 0
    cached: int = 0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0

    def make_usage(self) -> dict[str, Any]:
        prompt_tokens, completion_tokens = len(self.prompt), len(self.words)
        counts = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }
        return counts | {"prompt_tokens_details": {"cached_tokens": self.cached}}

    def make_timings(self) -> dict[str, Any]:
        prompt = {"prompt_n": len(self.prompt) - self.cached, "prompt_ms": round(self.prompt_ms, 3)}
        predicted = {"predicted_n": len(self.words), "predicted_ms": round(self.predicted_ms, 3)}
        return {"cache_n": self.cached} | prompt | predicted


class FakeEngine:
    """Pretends to generate text and embeddings: deterministic words, with the speed and failures of its behaviour."""

    def __init__(self, options: argparse.Namespace, behaviour: FakeBehaviour) -> None:
        self.name = options.name or os.path.basename(options.model) or "fake"  # noqa: PTH119 - only its last part
        self.fingerprint = f"fake-{options.release}"
        self.behaviour = behaviour
        self.slots = SlotQueue(behaviour)
        self.cache = PromptPrefixCache(behaviour)
        self.is_loaded = False
        self.counts = dict.fromkeys(("requests", "failed", "prompt_tokens", "cached_tokens", "predicted_tokens"), 0)
        self._memory = b""
        self._may_answer = asyncio.Event()
        self._may_continue = asyncio.Event()
        self.apply_behaviour()

    def apply_behaviour(self) -> None:
        """Apply a behaviour that has changed."""
        # The memory is written to, so that it is really allocated.
        self._memory = b"\x01" * (self.behaviour.memory_mib << 20)
        (self._may_answer.clear if self.behaviour.hang else self._may_answer.set)()
        (self._may_continue.clear if self.behaviour.stall_after else self._may_continue.set)()
        self.slots.start_next()

    async def load(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.is_loaded = True
        print(f"ready: {self.name}", file=sys.stderr, flush=True)

    @asynccontextmanager
    async def begin_call(self) -> AsyncIterator[int]:
        """Wait for a slot and yield the number of the call; configured failures happen here."""
        if not self.is_loaded:
            raise ApiError(503, "Loading model", "loading")
        self.counts["requests"] += 1
        number = self.counts["requests"]
        if self.behaviour.fail_every and number % self.behaviour.fail_every == 0:
            self.counts["failed"] += 1
            raise ApiError(500, f"Call {number} fails as configured.", "told_to_fail")
        async with self.slots.take():
            await self._may_answer.wait()
            yield number

    def plan_completion(self, text: str, limit: int | None, *, ignores_end: bool, index: int = 0) -> FakeCompletion:
        """Return the completion of this prompt."""
        prompt = TOKEN.findall(text)
        room = self._compute_room(prompt)
        seed = compute_digest(self.name.encode(), text if index == 0 else f"{text}\n{index}")
        full_length = room if ignores_end else 8 + seed[0] % 25
        length = min(full_length, room if limit is None else limit, room)
        words = [LEXICON[compute_digest(seed, str(number))[0] % len(LEXICON)] for number in range(length)]
        words[1:] = [f" {word}" for word in words[1:]]
        finish = "length" if ignores_end or length < full_length else "stop"
        return FakeCompletion(prompt=prompt, words=words, finish=finish, index=index)

    def plan_exactly(self, text: str, reply: str, tool: str = "") -> FakeCompletion:
        """Return a completion with a given text, or with the arguments of a tool."""
        prompt = TOKEN.findall(text)
        self._compute_room(prompt)
        return FakeCompletion(
            prompt=prompt, words=PIECE.findall(reply), finish="tool_calls" if tool else "stop", tool=tool
        )

    def _compute_room(self, prompt: list[str]) -> int:
        room = self.behaviour.context_size - len(prompt)
        if room < 1:
            problem = f"The prompt has {len(prompt)} tokens; the context has {self.behaviour.context_size}."
            raise ApiError(400, problem, "context_length_exceeded")
        return room

    async def generate(self, answer: FakeCompletion, number: int) -> AsyncIterator[str]:
        """Yield the words of the answer at the pace of the engine."""
        clock = asyncio.get_running_loop().time
        started = clock()
        answer.cached = self.cache.count_cached(answer.prompt)
        self.counts["prompt_tokens"] += len(answer.prompt)
        self.counts["cached_tokens"] += answer.cached
        await asyncio.sleep((len(answer.prompt) - answer.cached) / 1000 * self.behaviour.prompt_s)
        self.cache.store(answer.prompt)
        first = clock()
        answer.prompt_ms = (first - started) * 1000
        for index, word in enumerate(answer.words):
            if number == self.behaviour.crash_after and index == len(answer.words) // 2:
                print("error: the engine crashes as configured", file=sys.stderr, flush=True)
                os._exit(70)
            if index and index == self.behaviour.stall_after:
                await self._may_continue.wait()
            if self.behaviour.tokens_per_s:
                due = first + index / self.behaviour.tokens_per_s
                await asyncio.sleep(max(0.0, due - clock()))
            self.counts["predicted_tokens"] += 1
            yield word
        answer.predicted_ms = (clock() - first) * 1000
        self.cache.store([*answer.prompt, *[word.strip() for word in answer.words]])

    def render_metrics(self) -> str:
        numbers = {
            "requests_processing": self.slots.running,
            "requests_waiting": self.slots.waiting,
            "slots": self.behaviour.slots,
            "cache_blocks_used": len(self.cache),
            "cache_blocks": self.behaviour.cache_blocks,
        } | {f"{name}_total": value for name, value in self.counts.items()}
        kinds = {True: "counter", False: "gauge"}
        lines = [(f"fake_{name}", kinds[name.endswith("_total")], value) for name, value in numbers.items()]
        return "".join(f"# TYPE {name} {kind}\n{name} {value}\n" for name, kind, value in lines)


class FakeEngineApi:
    """Serves the fake engine over HTTP in OpenAI's format."""

    def __init__(self, engine: FakeEngine, key: str) -> None:
        self._engine = engine
        self._key = key

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._key and request.path != "/health" and not hmac.compare_digest(key.encode(), self._key.encode()):
            return ApiError(401, "The key is missing or wrong.", "invalid_api_key").make_response()
        try:
            return await handler(request)
        except ApiError as refused:
            return refused.make_response()
        except web.HTTPException as error:
            return ApiError(error.status, f"{error.reason}: {request.method} {request.path}", "http").make_response()

    def list_routes(self) -> list[web.RouteDef]:
        return [
            web.get("/health", self.show_health),
            web.get("/metrics", self.show_metrics),
            web.get("/v1/models", self.list_models),
            web.post("/v1/chat/completions", self.complete_chat),
            web.post("/v1/completions", self.complete_text),
            web.post("/v1/embeddings", self.embed),
        ]

    async def show_health(self, _request: web.Request) -> web.Response:
        await asyncio.sleep(self._engine.behaviour.health_s)
        if not self._engine.is_loaded:
            return ApiError(503, "Loading model", "loading").make_response()
        return web.json_response({"status": "ok"})

    async def list_models(self, _request: web.Request) -> web.Response:
        model = {"id": self._engine.name, "object": "model", "created": 0, "owned_by": self._engine.fingerprint}
        return web.json_response({"object": "list", "data": [model]})

    async def show_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._engine.render_metrics(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def show_control(self, _request: web.Request) -> web.Response:
        return web.json_response(asdict(self._engine.behaviour) | {"counts": self._engine.counts})

    async def change_control(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        if body.pop("crash", False):
            os._exit(70)
        if body.pop("clear_cache", False):
            self._engine.cache.clear()
        self._engine.behaviour.change(body)
        self._engine.apply_behaviour()
        return await self.show_control(request)

    async def complete_chat(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        return await self._complete(request, body, "chat.completion", [render_chat(body.get("messages"))])

    async def complete_text(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        prompt: Any = body.get("prompt")
        prompts: list[Any] = prompt if isinstance(prompt, list) else [prompt]
        if not prompts or not all(isinstance(one, str) for one in prompts):
            raise ApiError(400, "prompt is neither a text nor a list of texts.")
        return await self._complete(request, body, "text_completion", prompts)

    async def embed(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        inputs = body.get("input")
        inputs = [inputs] if isinstance(inputs, str) else inputs
        if not isinstance(inputs, list) or not inputs or not all(isinstance(item, str) and item for item in inputs):
            raise ApiError(400, "input is neither a text nor a list of texts.")
        async with self._engine.begin_call():
            vectors = [compute_vector(item) for item in inputs]
        tokens = sum(len(TOKEN.findall(item)) for item in inputs)
        written = pack_vector if body.get("encoding_format") == "base64" else list
        items = enumerate(vectors)
        data = [{"object": "embedding", "index": index, "embedding": written(vector)} for index, vector in items]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "model": self._engine.name, "data": data, "usage": usage})

    async def _complete(
        self, request: web.Request, body: dict[str, Any], kind: str, prompts: list[str]
    ) -> web.StreamResponse:
        answers = [answer for prompt in prompts for answer in self._plan_choices(body, prompt)]
        for place, answer in enumerate(answers):
            answer.index = place
        stable = compute_digest(self._engine.name.encode(), "\n".join(prompts)).hex()[:16]
        shape: dict[str, Any] = {"id": f"fake-{stable}", "created": 0, "model": self._engine.name}
        shape |= {"object": kind, "system_fingerprint": self._engine.fingerprint}
        tells_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        async with self._engine.begin_call() as number:
            if body.get("stream"):
                return await self._stream(request, shape, answers, number, tells_usage=tells_usage)
            choices = [await self._render_whole_choice(answer, number, kind) for answer in answers]
        first = answers[0]
        shape |= {"choices": choices, "usage": first.make_usage(), "timings": first.make_timings()}
        return web.json_response(shape)

    def _plan_choices(self, body: dict[str, Any], text: str) -> list[FakeCompletion]:
        messages = body.get("messages")
        last = messages[-1] if isinstance(messages, list) else {}
        if last.get("role") == "tool":
            return [self._engine.plan_exactly(text, content_text(last))]
        ordered = TOOL_CALL.search(content_text(last)) if last.get("role") == "user" else None
        if ordered and ordered[1] in tool_names(body):
            return [self._engine.plan_exactly(text, ordered[2], tool=ordered[1])]
        count = self._count_choices(body)
        limit, ignores_end = parse_limit(body), bool(body.get("ignore_eos"))
        return [
            self._engine.plan_completion(text, limit, ignores_end=ignores_end, index=index) for index in range(count)
        ]

    def _count_choices(self, body: dict[str, Any]) -> int:
        count, most = body.get("n") or 1, self._engine.behaviour.slots
        if not isinstance(count, int) or not 1 <= count <= most:
            raise ApiError(400, f"n is not a number from 1 to {most}.")
        return count

    async def _render_whole_choice(self, answer: FakeCompletion, number: int, kind: str) -> dict[str, Any]:
        text = "".join([word async for word in self._engine.generate(answer, number)])
        content: dict[str, Any] = {"text": text}
        if answer.tool:
            call = {"id": call_id(answer), "type": "function", "function": {"name": answer.tool, "arguments": text}}
            content = {"message": {"role": "assistant", "content": None, "tool_calls": [call]}}
        elif kind == "chat.completion":
            content = {"message": {"role": "assistant", "content": text}}
        return {"index": answer.index, "finish_reason": answer.finish, "logprobs": None, **content}

    async def _stream(
        self,
        request: web.Request,
        shape: dict[str, Any],
        answers: list[FakeCompletion],
        number: int,
        *,
        tells_usage: bool,
    ) -> web.StreamResponse:
        is_chat = shape["object"] == "chat.completion"
        if is_chat:
            shape["object"] = "chat.completion.chunk"
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await stream.prepare(request)

        async def send(index: int, content: dict[str, Any], finish: str | None = None, **more: object) -> None:
            part = {"delta": content} if is_chat else {"text": content.get("content", "")}
            chunk = shape | {"choices": [{"index": index, "finish_reason": finish, **part}]} | more
            await stream.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

        for answer in answers:
            index = answer.index
            if is_chat:
                await send(index, {"role": "assistant", "content": None if answer.tool else ""})
            if answer.tool:
                function = {"name": answer.tool, "arguments": ""}
                call = {"index": 0, "id": call_id(answer), "type": "function", "function": function}
                await send(index, {"tool_calls": [call]})
            async for word in self._engine.generate(answer, number):
                piece = {"tool_calls": [{"index": 0, "function": {"arguments": word}}]}
                await send(index, piece if answer.tool else {"content": word})
            timings: dict[str, Any] = {"timings": answer.make_timings()}
            await send(index, {}, answer.finish, **({} if tells_usage else timings))
            if tells_usage:
                await send(index, {}, choices=[], usage=answer.make_usage(), **timings)
        await stream.write(b"data: [DONE]\n\n")
        return stream


async def read_body(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ApiError(400, "The body is not a JSON object.")
    return body


def parse_limit(body: dict[str, Any]) -> int | None:
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise ApiError(400, "max_tokens is not a number from 1.")
    return limit


def render_chat(messages: object) -> str:
    """Return a conversation as one text, as a template would make it."""
    if not isinstance(messages, list) or not messages or not all(isinstance(item, dict) for item in messages):
        raise ApiError(400, "messages is not a list of messages.")
    lines = [f"{message.get('role', 'user')}: {content_text(message)}" for message in messages]
    return "\n".join([*lines, "assistant:"])


def content_text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def tool_names(body: dict[str, Any]) -> set[object]:
    tools = body.get("tools")
    found = [tool.get("function") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return {function.get("name") for function in found if isinstance(function, dict)}


def call_id(answer: FakeCompletion) -> str:
    return f"call_{compute_digest(' '.join(answer.prompt).encode(), ''.join(answer.words)).hex()[:16]}"


def compute_digest(previous: bytes, text: str) -> bytes:
    return hashlib.blake2b(previous + text.encode(), digest_size=16).digest()


def compute_vector(text: str) -> list[float]:
    """Return an embedding; texts with the same words lie close to each other."""
    values = [0.0] * DIMENSIONS
    for word in TOKEN.findall(text.lower()):
        for place, byte in enumerate(compute_digest(b"", word)):
            values[(place * 4 + byte) % DIMENSIONS] += byte / 127.5 - 1.0
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / length for value in values]


def pack_vector(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="print the version and exit")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="", help="not read; its last part is the name if --name is not given")
    parser.add_argument("--name", default="", help="the model's public name")
    parser.add_argument("--threads", type=int, default=1, help="accepted and ignored")
    parser.add_argument("--api-key-env", default="", help="the variable that holds the key that callers must send")
    release = os.environ.get("CORRAL_FAKE_RELEASE", "0")
    parser.add_argument("--release", default=release, help="the version to report")
    parser.add_argument("--load-s", type=float, default=0.0, help="seconds until it is ready")
    parser.add_argument(
        "--refuse-start", choices=("true", "false"), default="false", help="exit with an error at the start"
    )
    parser.add_argument(
        "--control", choices=("true", "false"), default="false", help="accept changes of the behaviour at /_control"
    )
    for item in fields(FakeBehaviour):
        flag = "--" + item.name.replace("_", "-")
        parser.add_argument(flag, type=NUMBER_TYPES[str(item.type)], default=item.default, help=item.metadata["help"])
    return parser.parse_args()


def main() -> int:
    options = read_options()
    if options.refuse_start == "true":
        print("error: the engine is configured not to start", file=sys.stderr, flush=True)
        return 1
    if options.check:
        print(options.release, flush=True)
        return 0
    behaviour = FakeBehaviour(**{item.name: getattr(options, item.name) for item in fields(FakeBehaviour)})
    engine = FakeEngine(options, behaviour)
    api = FakeEngineApi(engine, read_key(options.api_key_env))
    app = web.Application(middlewares=[api.guard], client_max_size=BODY_LIMIT_BYTES)
    app.add_routes(api.list_routes())
    if options.control == "true":
        app.add_routes([web.get("/_control", api.show_control), web.post("/_control", api.change_control)])

    async def start(app: web.Application) -> None:
        app["loading"] = asyncio.create_task(engine.load(options.load_s))

    app.on_startup.append(start)
    # Bind before the model is loaded: an engine whose port is taken never says that it is ready.
    with open_listener(options.host, options.port) as listener:
        # A client that disconnects frees the slot.
        web.run_app(app, sock=listener, print=None, shutdown_timeout=GRACE_S, handler_cancellation=True)
    return 0


def open_listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


if __name__ == "__main__":
    sys.exit(main())
