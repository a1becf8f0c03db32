"""An engine that only pretends to think, and is honest about everything else: for tests, benchmarks and demonstrations.

It speaks OpenAI's chat, completions and embeddings. A text is made from the model's name and the prompt: the same call
gets the same answer on every machine, and another model gives another one. Time passes as it would: prompts take their
time, tokens come at a rate, calls wait for a slot, and a prompt whose beginning is still in the cache is read faster.
It fails in the ways in which engines fail when it is told to, by flags or, with --control=true, by POST /_control.
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
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BODY_LIMIT_BYTES = 16 << 20
WAITING_MAX = 1024
GRACE_S = 10.0
DIMENSIONS = 64
KINDS: dict[str, type[int] | type[float]] = {"int": int, "float": float}
WORDS = (
    "amber birch cedar delta ember fern grove harbor island juniper kelp lagoon meadow nectar orchid pebble quartz "
    "river saddle timber umber valley willow yarrow zephyr barn colt ditch fence gate hay lasso mare oats paddock"
)
LEXICON = tuple(WORDS.split())
TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(slots=True, kw_only=True)
class Behaviour:
    """What can be changed while it runs. 0 of a time means none, 0 of a failure means never."""

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

    def change(self, wish: dict[str, Any]) -> None:
        known = {item.name: KINDS[str(item.type)] for item in fields(self)}
        for name, value in wish.items():
            if name not in known:
                raise Refused(400, f"{name} is not one of {', '.join(known)}.")
            if not isinstance(value, (int, known[name])) or isinstance(value, bool) or value < 0:
                raise Refused(400, f"{name} is not a number from 0.")
        for name, value in wish.items():
            setattr(self, name, known[name](value))


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


class Slots:
    """As many at a time as the behaviour says, the others in the order in which they came."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._line: deque[asyncio.Future[None]] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._line)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        if self.waiting >= WAITING_MAX:
            raise Refused(503, f"{WAITING_MAX} calls are waiting already.", "overloaded")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        self.call_next()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self.running -= 1
            elif turn in self._line:
                self._line.remove(turn)
            self.call_next()

    def call_next(self) -> None:
        while self._line and self.running < self._behaviour.slots:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                self.running += 1


class PrefixCache:
    """Whole blocks of tokens, each known by everything before it; what was not used longest goes first."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def clear(self) -> None:
        self._blocks.clear()

    def cached(self, tokens: list[str]) -> int:
        """How many tokens from the beginning need not be read again. The last one always is."""
        known = 0
        for block in self._chain(tokens):
            if block not in self._blocks:
                break
            known += 1
        return max(0, min(known * self._behaviour.cache_block, len(tokens) - 1))

    def keep(self, tokens: list[str]) -> None:
        # From the end: without its beginning the rest of a prompt is worth nothing.
        for block in reversed(self._chain(tokens)):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._behaviour.cache_blocks:
            self._blocks.popitem(last=False)

    def _chain(self, tokens: list[str]) -> list[bytes]:
        size, chain, last = self._behaviour.cache_block, [], b""
        for start in range(0, len(tokens) - size + 1 if size else 0, size or 1):
            last = digest(last, " ".join(tokens[start : start + size]))
            chain.append(last)
        return chain


@dataclass(slots=True, kw_only=True)
class Answer:
    """One call on its way: what is to be said, and how long it took."""

    prompt: list[str]
    words: list[str]
    finish: str
    cached: int = 0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0

    def usage(self) -> dict[str, Any]:
        asked, said = len(self.prompt), len(self.words)
        counts = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        return counts | {"prompt_tokens_details": {"cached_tokens": self.cached}}

    def timings(self) -> dict[str, Any]:
        prompt = {"prompt_n": len(self.prompt) - self.cached, "prompt_ms": round(self.prompt_ms, 3)}
        predicted = {"predicted_n": len(self.words), "predicted_ms": round(self.predicted_ms, 3)}
        return {"cache_n": self.cached} | prompt | predicted


class Engine:
    def __init__(self, options: argparse.Namespace, behaviour: Behaviour) -> None:
        self.name = options.name or os.path.basename(options.model) or "fake"  # noqa: PTH119 - only its last part
        self.fingerprint = f"fake-{options.release}"
        self.behaviour = behaviour
        self.slots = Slots(behaviour)
        self.cache = PrefixCache(behaviour)
        self.is_loaded = False
        self.counts = dict.fromkeys(("requests", "failed", "prompt_tokens", "cached_tokens", "predicted_tokens"), 0)
        self._held = b""
        self._answers = asyncio.Event()
        self.obey()

    def obey(self) -> None:
        """Act on a behaviour that has changed."""
        # Written to, so that the memory is not only promised.
        self._held = b"\x01" * (self.behaviour.memory_mib << 20)
        (self._answers.clear if self.behaviour.hang else self._answers.set)()
        self.slots.call_next()

    async def load(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.is_loaded = True
        print(f"ready: {self.name}", file=sys.stderr, flush=True)

    @asynccontextmanager
    async def call(self) -> AsyncIterator[int]:
        """A turn, with its number; the failures that were ordered happen here."""
        if not self.is_loaded:
            raise Refused(503, "Loading model", "loading")
        self.counts["requests"] += 1
        number = self.counts["requests"]
        if self.behaviour.fail_every and number % self.behaviour.fail_every == 0:
            self.counts["failed"] += 1
            raise Refused(500, f"Call {number} was told to fail.", "told_to_fail")
        async with self.slots.one():
            await self._answers.wait()
            yield number

    def plan(self, text: str, limit: int | None, *, ignores_end: bool) -> Answer:
        """What will be said to this prompt."""
        prompt = TOKEN.findall(text)
        room = self.behaviour.context_size - len(prompt)
        if room < 1:
            what = f"The prompt has {len(prompt)} tokens; the context has {self.behaviour.context_size}."
            raise Refused(400, what, "context_length_exceeded")
        seed = digest(self.name.encode(), text)
        wanted = room if ignores_end else 8 + seed[0] % 25
        length = min(wanted, room if limit is None else limit, room)
        words = [LEXICON[digest(seed, str(place))[0] % len(LEXICON)] for place in range(length)]
        return Answer(prompt=prompt, words=words, finish="length" if ignores_end or length < wanted else "stop")

    async def say(self, answer: Answer, number: int) -> AsyncIterator[str]:
        """The words of the answer at the pace of the engine."""
        clock = asyncio.get_running_loop().time
        started = clock()
        answer.cached = self.cache.cached(answer.prompt)
        self.counts["prompt_tokens"] += len(answer.prompt)
        self.counts["cached_tokens"] += answer.cached
        await asyncio.sleep((len(answer.prompt) - answer.cached) / 1000 * self.behaviour.prompt_s)
        self.cache.keep(answer.prompt)
        first = clock()
        answer.prompt_ms = (first - started) * 1000
        for place, word in enumerate(answer.words):
            if number == self.behaviour.crash_after and place == len(answer.words) // 2:
                print("error: the engine was told to crash", file=sys.stderr, flush=True)
                os._exit(70)
            if self.behaviour.tokens_per_s:
                due = first + place / self.behaviour.tokens_per_s
                await asyncio.sleep(max(0.0, due - clock()))
            self.counts["predicted_tokens"] += 1
            yield word if place == 0 else f" {word}"
        answer.predicted_ms = (clock() - first) * 1000
        self.cache.keep([*answer.prompt, *answer.words])

    def metrics(self) -> str:
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


class Api:
    """The engine over HTTP."""

    def __init__(self, engine: Engine, key: str) -> None:
        self._engine = engine
        self._key = key

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._key and request.path != "/health" and not hmac.compare_digest(shown.encode(), self._key.encode()):
            return Refused(401, "The key is missing or wrong.", "invalid_api_key").answer()
        try:
            return await handler(request)
        except Refused as refused:
            return refused.answer()
        except web.HTTPException as error:
            return Refused(error.status, f"{error.reason}: {request.method} {request.path}", "http").answer()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/health", self.health),
            web.get("/metrics", self.metrics),
            web.get("/v1/models", self.models),
            web.post("/v1/chat/completions", self.chat),
            web.post("/v1/completions", self.completions),
            web.post("/v1/embeddings", self.embeddings),
        ]

    async def health(self, _request: web.Request) -> web.Response:
        await asyncio.sleep(self._engine.behaviour.health_s)
        if not self._engine.is_loaded:
            return Refused(503, "Loading model", "loading").answer()
        return web.json_response({"status": "ok"})

    async def models(self, _request: web.Request) -> web.Response:
        model = {"id": self._engine.name, "object": "model", "created": 0, "owned_by": self._engine.fingerprint}
        return web.json_response({"object": "list", "data": [model]})

    async def metrics(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._engine.metrics(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def show_control(self, _request: web.Request) -> web.Response:
        return web.json_response(asdict(self._engine.behaviour) | {"counts": self._engine.counts})

    async def control(self, request: web.Request) -> web.Response:
        wish = await body_of(request)
        if wish.pop("crash", False):
            os._exit(70)
        if wish.pop("clear_cache", False):
            self._engine.cache.clear()
        self._engine.behaviour.change(wish)
        self._engine.obey()
        return await self.show_control(request)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        wish = await body_of(request)
        return await self._answer(request, wish, "chat.completion", chat_text(wish.get("messages")))

    async def completions(self, request: web.Request) -> web.StreamResponse:
        wish = await body_of(request)
        prompt = wish.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        if not isinstance(prompt, str):
            raise Refused(400, "prompt is not a text; this engine takes one at a time.")
        return await self._answer(request, wish, "text_completion", prompt)

    async def embeddings(self, request: web.Request) -> web.Response:
        wish = await body_of(request)
        inputs = wish.get("input")
        inputs = [inputs] if isinstance(inputs, str) else inputs
        if not isinstance(inputs, list) or not inputs or not all(isinstance(item, str) and item for item in inputs):
            raise Refused(400, "input is neither a text nor a list of texts.")
        async with self._engine.call():
            vectors = [vector_of(item) for item in inputs]
        tokens = sum(len(TOKEN.findall(item)) for item in inputs)
        written = packed if wish.get("encoding_format") == "base64" else list
        items = enumerate(vectors)
        data = [{"object": "embedding", "index": place, "embedding": written(vector)} for place, vector in items]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "model": self._engine.name, "data": data, "usage": usage})

    async def _answer(self, request: web.Request, wish: dict[str, Any], kind: str, text: str) -> web.StreamResponse:
        answer = self._engine.plan(text, limit_of(wish), ignores_end=bool(wish.get("ignore_eos")))
        stable = digest(self._engine.name.encode(), text).hex()[:16]
        shape: dict[str, Any] = {"id": f"fake-{stable}", "created": 0, "model": self._engine.name}
        shape |= {"object": kind, "system_fingerprint": self._engine.fingerprint}
        tells_usage = bool((wish.get("stream_options") or {}).get("include_usage"))
        async with self._engine.call() as number:
            if wish.get("stream"):
                return await self._stream(request, shape, answer, number, tells_usage=tells_usage)
            said = "".join([word async for word in self._engine.say(answer, number)])
        content = {"message": {"role": "assistant", "content": said}} if kind == "chat.completion" else {"text": said}
        choice = {"index": 0, "finish_reason": answer.finish, "logprobs": None, **content}
        shape |= {"choices": [choice], "usage": answer.usage(), "timings": answer.timings()}
        return web.json_response(shape)

    async def _stream(
        self, request: web.Request, shape: dict[str, Any], answer: Answer, number: int, *, tells_usage: bool
    ) -> web.StreamResponse:
        is_chat = shape["object"] == "chat.completion"
        if is_chat:
            shape["object"] = "chat.completion.chunk"
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await stream.prepare(request)

        async def send(content: dict[str, Any], finish: str | None = None, **more: object) -> None:
            part = {"delta": content} if is_chat else {"text": content.get("content", "")}
            chunk = shape | {"choices": [{"index": 0, "finish_reason": finish, **part}]} | more
            await stream.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

        if is_chat:
            await send({"role": "assistant", "content": ""})
        async for word in self._engine.say(answer, number):
            await send({"content": word})
        await send({}, answer.finish, timings=answer.timings())
        if tells_usage:
            await send({}, choices=[], usage=answer.usage())
        await stream.write(b"data: [DONE]\n\n")
        return stream


async def body_of(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "The body is not a JSON object.")
    return body


def limit_of(wish: dict[str, Any]) -> int | None:
    limit = wish.get("max_completion_tokens") or wish.get("max_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise Refused(400, "max_tokens is not a number from 1.")
    return limit


def chat_text(messages: object) -> str:
    """A conversation as one text, as a template would make it."""
    if not isinstance(messages, list) or not messages or not all(isinstance(item, dict) for item in messages):
        raise Refused(400, "messages is not a list of messages.")
    lines = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        lines.append(f"{message.get('role', 'user')}: {content}")
    return "\n".join([*lines, "assistant:"])


def digest(before: bytes, text: str) -> bytes:
    return hashlib.blake2b(before + text.encode(), digest_size=16).digest()


def vector_of(text: str) -> list[float]:
    """Texts with the same words lie close to each other."""
    values = [0.0] * DIMENSIONS
    for word in TOKEN.findall(text.lower()):
        for place, byte in enumerate(digest(b"", word)):
            values[(place * 4 + byte) % DIMENSIONS] += byte / 127.5 - 1.0
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / length for value in values]


def packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="print the version and end")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="", help="is not read; its last part is the name if there is no other")
    parser.add_argument("--name", default="", help="the model's public name")
    parser.add_argument("--threads", type=int, default=1, help="is taken and not used")
    parser.add_argument("--api-key-env", default="", help="the variable that holds the key which callers must show")
    release = os.environ.get("CORRAL_FAKE_RELEASE", "0")
    parser.add_argument("--release", default=release, help="the version that it says it is")
    parser.add_argument("--load-s", type=float, default=0.0, help="seconds until it is ready")
    parser.add_argument("--refuse-start", choices=("true", "false"), default="false", help="end with an error")
    parser.add_argument("--control", choices=("true", "false"), default="false", help="take orders at /_control")
    for item in fields(Behaviour):
        flag = "--" + item.name.replace("_", "-")
        parser.add_argument(flag, type=KINDS[str(item.type)], default=item.default, help=item.metadata["help"])
    return parser.parse_args()


def key_from(variable: str) -> str:
    """The key that callers must show; a variable that was named and is empty must not open the door."""
    key = os.environ.pop(variable, "") if variable else ""
    if variable and not key:
        print(f"error: {variable} is empty, so there is no key to check", file=sys.stderr, flush=True)
        raise SystemExit(1)
    return key


def main() -> int:
    options = read_options()
    if options.refuse_start == "true":
        print("error: the engine was told not to start", file=sys.stderr, flush=True)
        return 1
    if options.check:
        print(options.release, flush=True)
        return 0
    behaviour = Behaviour(**{item.name: getattr(options, item.name) for item in fields(Behaviour)})
    engine = Engine(options, behaviour)
    api = Api(engine, key_from(options.api_key_env))
    app = web.Application(middlewares=[api.guard], client_max_size=BODY_LIMIT_BYTES)
    app.add_routes(api.routes())
    if options.control == "true":
        app.add_routes([web.get("/_control", api.show_control), web.post("/_control", api.control)])

    async def start(app: web.Application) -> None:
        app["loading"] = asyncio.create_task(engine.load(options.load_s))

    app.on_startup.append(start)
    # Listened on before the model is loaded: an engine whose port is taken never says that it is ready.
    with listen(options.host, options.port) as listener:
        # A caller who leaves frees the slot.
        web.run_app(app, sock=listener, print=None, shutdown_timeout=GRACE_S, handler_cancellation=True)
    return 0


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


if __name__ == "__main__":
    sys.exit(main())
