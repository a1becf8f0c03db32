"""The routes: which requests are passed on, translated or refused, and how errors are rendered."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from corral.api.dialects.dialect_call import PATHS
from corral.backends.catalog import read_built_in
from corral.domain.access import Principal
from corral.domain.usage import ErrorOrigin, RequestRecord
from corral.gateway.connection.connection_limits import INFERENCE_BODY_BYTES_MAX
from corral.gateway.errors import QueueFull
from corral.ports.requests import NoLimits
from corral.store.database import Database
from tests.api.dialects.recorder import recorder
from tests.api.dialects.streams import lines, server_sent, whole
from tests.engines.engine_processes import Engine
from tests.serving.scene import PretendLoads, keep_only_the_feed, put_model, serve, settled
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually

AUTHORISED = {"Authorization": f"Bearer {ADMIN_KEY}"}
MESSAGES = [{"role": "user", "content": "hello"}]
MESSAGE = {"model": "chat", "max_tokens": 20, "messages": MESSAGES}
RESPONSE = {"model": "chat", "input": "hello", "max_output_tokens": 20}
OLLAMA = {"model": "chat", "messages": MESSAGES, "options": {"num_predict": 20}}
# Every dialect's way to ask the same, and where its errors have their sentence.
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/messages", MESSAGE),
    ("/v1/responses", RESPONSE),
    ("/api/chat", OLLAMA),
    ("/api/generate", {"model": "chat", "prompt": "hello", "options": {"num_predict": 20}}),
]


@pytest.fixture
async def cold(database_url: str, database: Database) -> AsyncIterator[RunningFrontend]:
    """A frontend whose loads never end."""
    async with running_frontend(database_url, loads=PretendLoads(database)) as frontend:
        await keep_only_the_feed(frontend)
        yield frontend


def sentence(path: str, answer: Any) -> str:
    """What an error says, out of the envelope that the path has."""
    if path.startswith("/api/"):
        assert set(answer) == {"error"}
        return str(answer["error"])
    if path.startswith("/v1/messages"):
        assert (answer["type"], set(answer)) == ("error", {"type", "error", "request_id"})
        return str(answer["error"]["message"])
    assert {"message", "type", "code", "param"} <= set(answer["error"])
    return str(answer["error"]["message"])


async def post(frontend: RunningFrontend, path: str, body: Any, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    async with frontend.http.post(f"{frontend.url}{path}", json=body, headers=AUTHORISED | headers) as answer:
        return answer.status, await answer.read(), {name.lower(): value for name, value in answer.headers.items()}


async def test_every_dialect_gets_the_same_words_whole_and_in_pieces(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine, aliases=("alias",))
    chat = {"model": "chat", "messages": MESSAGES, "max_tokens": 20}
    _, plain = await frontend.call("POST", "/v1/chat/completions", chat)
    words, tokens = plain["choices"][0]["message"]["content"], plain["usage"]["completion_tokens"]

    _, message = await frontend.call("POST", "/v1/messages", MESSAGE | {"model": "alias"})
    assert message["content"] == [{"type": "text", "text": words}]
    assert (message["model"], message["usage"]["output_tokens"]) == ("chat", tokens)
    _, raw, headers = await post(frontend, "/v1/messages", MESSAGE | {"stream": True})
    events = server_sent(raw)
    assert "".join(event["delta"].get("text", "") for event in events if "delta" in event) == words
    assert events[-2]["usage"]["output_tokens"] == tokens
    assert headers["content-type"] == "text/event-stream"
    assert headers["request-id"] == headers["x-request-id"]
    assert headers["x-corral-node"] == "node-1"

    _, response = await frontend.call("POST", "/v1/responses", RESPONSE)
    assert response["output"][0]["content"][0]["text"] == words
    _, raw, _ = await post(frontend, "/v1/responses", RESPONSE | {"stream": True})
    assert server_sent(raw)[-1]["response"]["output"][0]["content"][0]["text"] == words

    _, raw, headers = await post(frontend, "/api/chat", OLLAMA | {"model": "chat:latest"})
    found = lines(raw)
    assert "".join(line["message"]["content"] for line in found) == words
    assert (found[-1]["eval_count"], found[-1]["model"]) == (tokens, "chat:latest")
    assert headers["content-type"] == "application/x-ndjson"
    _, text = await frontend.call("POST", "/api/generate", REQUESTS[3][1] | {"stream": False})
    assert text["response"] == words


async def test_raw_texts_and_embeddings_of_ollama(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine)
    _, plain = await frontend.call("POST", "/v1/completions", {"model": "chat", "prompt": "x", "max_tokens": 5})
    raw = {"model": "chat", "prompt": "x", "raw": True, "stream": False, "options": {"num_predict": 5, "num_ctx": 1}}
    _, body, headers = await post(frontend, "/api/generate", raw)
    assert json.loads(body)["response"] == plain["choices"][0]["text"]
    assert headers["x-corral-ignored"] == "num_ctx"
    _, vectors = await frontend.call("POST", "/v1/embeddings", {"model": "chat", "input": ["a", "b"]})
    expected = [row["embedding"] for row in vectors["data"]]
    _, embedded = await frontend.call("POST", "/api/embed", {"model": "chat", "input": ["a", "b"]})
    assert embedded["embeddings"] == expected
    assert embedded["prompt_eval_count"] > 0
    _, old = await frontend.call("POST", "/api/embeddings", {"model": "chat", "prompt": "b"})
    assert old == {"embedding": expected[1]}


async def test_ollamas_clients_find_models(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine, serves=["chat", "embeddings"])
    await put_model(frontend.database, "org/other:7b")
    await put_model(frontend.database, "hidden", enabled=False)
    await settled(frontend)
    _, tags = await frontend.call("GET", "/api/tags")
    assert [model["name"] for model in tags["models"]] == ["chat:latest", "org/other:7b"]
    assert all(len(model["digest"]) >= 12 for model in tags["models"])
    _, loaded = await frontend.call("GET", "/api/ps")
    assert [model["name"] for model in loaded["models"]] == ["chat:latest"]
    _, shown = await frontend.call("POST", "/api/show", {"model": "chat:latest"})
    assert shown["capabilities"] == ["completion", "embedding"]
    assert (await frontend.call("GET", "/api/version"))[1]["version"]
    status, answer = await frontend.call("POST", "/api/show", {"model": "hidden"})
    assert (status, "disabled" in sentence("/api/show", answer)) == (403, True)
    status, answer = await frontend.call("POST", "/api/pull", {"model": "chat"})
    assert (status, "corral models" in sentence("/api/pull", answer)) == (400, True)


@pytest.mark.behaviour("GW-87")
async def test_call_that_the_engine_supports_is_relayed_unchanged(frontend: RunningFrontend) -> None:
    defaults = {"system": "Be kind.", "temperature": 0.5, "stop": ["x"], "repeat_penalty": 1.1}
    async with recorder(frontend, "llama-cpp", aliases=("alias",), defaults=defaults) as engine:
        body = b'{ "max_tokens":5 , "model" : "alias", "messages":[{"role":"user","content":"h\\u00e9"}],"x":1e0}'
        status, answer = await frontend.call("POST", "/v1/messages", body, anthropic_beta="b1", cookie="secret=1")
        assert (status, answer) == (200, {"path": "/v1/messages"})
        assert engine.requests[-1].headers["Anthropic-Beta"] == "b1"
        assert "Cookie" not in engine.requests[-1].headers
        sent = engine.requests[-1].beginning.decode()
        assert sent.endswith(
            '"max_tokens":5 , "model" : "chat", "messages":[{"role":"user","content":"h\\u00e9"}],"x":1e0}'
        )
        filled = {"system": "Be kind.", "temperature": 0.5, "stop_sequences": ["x"]}
        assert {
            name: value for name, value in json.loads(sent).items() if name in (*filled, "repeat_penalty")
        } == filled
        await frontend.call("POST", "/v1/messages/count_tokens", {"model": "chat", "messages": MESSAGES, "system": ""})
        assert engine.requests[-1].path == "/v1/messages/count_tokens"
        assert json.loads(engine.requests[-1].beginning) == {"model": "chat", "messages": MESSAGES, "system": ""}
        await frontend.call("POST", "/v1/rerank", {"model": "chat", "query": "a", "documents": ["b"]})
        assert json.loads(engine.requests[-1].beginning) == {"model": "chat", "query": "a", "documents": ["b"]}


@pytest.mark.behaviour("GW-87")
def test_every_call_that_built_in_engines_serve_has_a_route() -> None:
    spoken = {
        word for entry in read_built_in().entries for version in entry.versions for word in version.manifest.serves
    }
    # Programs of runs serve no calls.
    assert spoken - {"quantize", "convert", "fine_tune"} <= set(PATHS)
    assert {"chat", "messages", "transcriptions", "speech"} <= spoken


@pytest.mark.behaviour("GW-87")
async def test_older_engine_that_does_not_know_a_call_gets_it_translated(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "llama-cpp") as engine:
        engine.answers["/v1/messages"] = (404, {"error": {"message": "File Not Found"}})
        engine.answers["/v1/chat/completions"] = (200, whole({"content": "hi"}))
        status, answer = await frontend.call("POST", "/v1/messages", MESSAGE)
        assert (status, answer["content"]) == (200, [{"type": "text", "text": "hi"}])
        assert [recorded.path for recorded in engine.requests] == ["/v1/messages", "/v1/chat/completions"]


@pytest.mark.behaviour("GW-87")
async def test_every_request_is_counted_once_under_its_own_name(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine)
    ended: list[RequestRecord] = []

    class RecordListener:
        def on_requests_ended(self, *records: RequestRecord) -> None:
            ended.extend(records)

    frontend.core.gateway.listeners.append(RecordListener())
    for is_stream in (True, False):
        for path, body in REQUESTS:
            assert (await post(frontend, path, body | {"stream": is_stream}))[0] == 200
    names = ["messages", "responses", "chat", "chat"] * 2
    assert [(one.call, one.status, one.is_stream) for one in ended] == [
        (name, 200, place < len(REQUESTS)) for place, name in enumerate(names)
    ]
    assert all(one.completion_tokens and not one.is_estimated and one.received_bytes for one in ended)
    ended.clear()
    await frontend.call("POST", "/v1/messages", MESSAGE | {"container": "x"})
    await frontend.call("POST", "/v1/messages", MESSAGE, key="ck_wrong")
    assert [(one.call, one.status, one.error_code) for one in ended] == [
        ("messages", 400, "not_expressible"),
        ("messages", 401, "not_authenticated"),
    ]


class EndedRecords(list[RequestRecord]):
    """A `ports.answers.Listener`."""

    def on_requests_ended(self, *records: RequestRecord) -> None:
        self.extend(records)


@pytest.fixture
def ended(frontend: RunningFrontend) -> EndedRecords:
    ended_records = EndedRecords()
    frontend.core.gateway.listeners.append(ended_records)
    return ended_records


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_call_retried_in_another_dialect_is_counted_once(
    frontend: RunningFrontend, ended: EndedRecords, status: int
) -> None:
    async with recorder(frontend, "llama-cpp") as engine:
        engine.answers["/v1/messages"] = (status, {"error": {"message": "File Not Found"}})
        engine.answers["/v1/chat/completions"] = (200, whole({"content": "hi"}))
        made = {"name": "k", "scope": "infer", "limits": [{"requests_per_minute": 7}]}
        key = (await frontend.call("POST", "/api/keys", made))[1]["key"]
        # More often than a breaker would bear, if this were a fault.
        for _ in range(6):
            assert (await frontend.call("POST", "/v1/messages", MESSAGE, key=key))[0] == 200
        assert [recorded.path for recorded in engine.requests] == ["/v1/messages", "/v1/chat/completions"] * 6
        assert [(one.call, one.status) for one in ended] == [("messages", 200)] * 6
        # The limits, too: one is left.
        assert (await frontend.call("POST", "/v1/messages", MESSAGE, key=key))[0] == 200
        assert (await frontend.call("POST", "/v1/messages", MESSAGE, key=key))[0] == 429
        ended.clear()
        await frontend.call("POST", "/v1/messages", MESSAGE | {"container": "x"})
        assert [(one.status, one.error_code) for one in ended] == [(400, "not_expressible")]


@pytest.mark.parametrize(
    ("path", "body"),
    [*((path, body | {"stream": False}) for path, body in REQUESTS), ("/api/embed", {"model": "chat", "input": "x"})],
    ids=[*(path for path, _ in REQUESTS), "/api/embed"],
)
@pytest.mark.parametrize("answer_body", ["no object", {"choices": "none"}], ids=["no object", "no answer"])
async def test_garbage_is_counted_as_what_its_client_gets(
    frontend: RunningFrontend, ended: EndedRecords, path: str, body: dict[str, Any], answer_body: object
) -> None:
    async with recorder(frontend, "other") as engine:
        for engine_path in ("/v1/chat/completions", "/v1/embeddings"):
            engine.answers[engine_path] = (200, answer_body)
        status, answer = await frontend.call("POST", path, body)
        assert (status, bool(sentence(path, answer))) == (502, True)
        assert [(one.status, one.origin, one.error_code) for one in ended] == [
            (502, ErrorOrigin.ENGINE, "engine_garbage")
        ]


@pytest.mark.parametrize(("path", "body"), REQUESTS[:3], ids=[path for path, _ in REQUESTS[:3]])
async def test_half_of_a_surrogate_pair_reaches_the_engine_as_the_escape_that_the_client_has_sent(
    frontend: RunningFrontend, path: str, body: dict[str, Any]
) -> None:
    sent = json.dumps(body | {"stream": False}).replace("hello", r"half \ud83d")
    async with recorder(frontend, "other") as engine:
        engine.answers["/v1/chat/completions"] = (200, whole({"content": "hi"}))
        status, answer = await frontend.call("POST", path, sent, content_type="application/json")
        assert status == 200, answer
        assert json.loads(engine.requests[-1].beginning)["messages"] == [{"role": "user", "content": "half \ud83d"}]


@pytest.mark.parametrize("path", ["/v1/messages", "/api/chat"])
async def test_unrequested_stream_of_an_engine_is_recorded_with_the_502_that_its_client_gets(
    frontend: RunningFrontend, ended: EndedRecords, path: str
) -> None:
    async with recorder(frontend, "other") as engine:
        engine.content_type = "text/event-stream"
        status, _ = await frontend.call("POST", path, dict(REQUESTS)[path] | {"stream": False})
        assert status == 502
        assert [(one.status, one.origin, one.error_code) for one in ended] == [
            (502, ErrorOrigin.ENGINE, "engine_garbage")
        ]


@pytest.mark.parametrize(("path", "body"), REQUESTS, ids=[path for path, _ in REQUESTS])
@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
async def test_answer_that_is_no_stream_is_counted_as_what_its_client_gets(
    frontend: RunningFrontend, ended: EndedRecords, path: str, body: dict[str, Any], kind: str
) -> None:
    async with recorder(frontend, "other") as engine:
        engine.content_type = kind
        status, raw, _ = await post(frontend, path, body | {"stream": True})
        assert (status, "did not send a stream" in sentence(path, json.loads(raw))) == (502, True)
        assert [(one.status, one.origin, one.error_code) for one in ended] == [
            (502, ErrorOrigin.ENGINE, "engine_garbage")
        ]


async def test_call_that_engine_or_model_does_not_support_is_refused(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine, serves=["chat"])
    for path in ("/v1/images/generations", "/v1/rerank", "/v1/audio/speech", "/api/embed"):
        status, answer = await frontend.call("POST", path, {"model": "chat", "input": "x"})
        assert status == 400
        assert "it is for chat" in sentence(path, answer)
    # The same in other words is allowed, but the fake engine does not count.
    assert (await frontend.call("POST", "/v1/messages", MESSAGE))[0] == 200
    status, answer = await frontend.call("POST", "/v1/messages/count_tokens", MESSAGE)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert "engine fake of model chat does not support count_tokens" in sentence("/v1/messages", answer)


@pytest.mark.behaviour("GW-89")
async def test_errors_have_the_callers_envelope(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine)

    async def post_and_read(path: str, body: Any, key: str = ADMIN_KEY) -> tuple[int, str]:
        status, answer = await frontend.call("POST", path, body, key=key)
        return status, sentence(path, answer)

    for path, body in REQUESTS:
        for wrong, key, status, words in (
            (body, "ck_wrong", 401, "API key"),
            (body | {"model": "chet"}, ADMIN_KEY, 404, "Did you mean chat?"),
            (b"{", ADMIN_KEY, 400, "not a JSON object"),
            ({"model": ["chat"]}, ADMIN_KEY, 400, "name of a model"),
        ):
            found = await post_and_read(path, wrong, key)
            assert (found[0], words in found[1]) == (status, True), (path, found)
    await engine.post("/_control", {"fail_every": 1})
    for path, body in REQUESTS:
        # The engine's own words, and its own status.
        status, answer_body = await post_and_read(path, body | {"stream": False})
        assert (status, answer_body.endswith("fails as configured.")) == (500, True)


@pytest.mark.behaviour("GW-89")
async def test_body_that_is_too_large_is_refused_in_the_envelope_of_the_callers_dialect(
    frontend: RunningFrontend,
) -> None:
    async def without_a_length() -> AsyncIterator[bytes]:
        for _ in range(INFERENCE_BODY_BYTES_MAX // 65536 + 1):
            yield b" " * 65536

    for path in ("/v1/messages", "/api/chat"):
        for data in (io.BytesIO(b" " * (INFERENCE_BODY_BYTES_MAX + 1)), without_a_length()):
            async with frontend.http.post(f"{frontend.url}{path}", data=data, headers=AUTHORISED) as answer:
                assert answer.status == 413
                assert "larger than 32768 KiB" in sentence(path, await answer.json())


@pytest.mark.behaviour("GW-89")
async def test_model_that_is_still_loading_is_503_with_a_time(cold: RunningFrontend) -> None:
    await put_model(cold.database)
    await settled(cold)
    for path, body in REQUESTS:
        status, raw, headers = await post(cold, path, body, prefer="wait=0")
        assert status == 503
        assert sentence(path, json.loads(raw))
        assert int(headers["retry-after"]) >= 1


@pytest.mark.behaviour("GW-89")
async def test_limits_and_allow_lists_hold_in_every_dialect(
    frontend: RunningFrontend, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await serve(frontend, engine)
    _, made = await frontend.call("POST", "/api/keys", {"name": "k", "scope": "infer", "models": ["llama-*"]})
    for path, body in REQUESTS:
        status, answer = await frontend.call("POST", path, body, key=made["key"])
        assert (status, "that this key may use" in sentence(path, answer)) == (404, True)
    assert (await frontend.call("GET", "/api/tags", key=made["key"]))[1] == {"models": []}

    class FullLimiter(NoLimits):
        def admit(self, principal: Principal, model: str) -> None:
            raise QueueFull("Enough.", details={"retry_after_s": 7})

    monkeypatch.setattr(frontend.core.gateway, "limiter", FullLimiter())
    for path, body in REQUESTS:
        status, raw, headers = await post(frontend, path, body)
        assert (status, headers["retry-after"], sentence(path, json.loads(raw))) == (429, "7", "Enough.")


@pytest.mark.behaviour("GW-89")
@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_engine_death_in_the_middle_of_a_stream_is_reported_in_the_streams_dialect(
    frontend: RunningFrontend, engine: Engine, path: str, body: dict[str, Any]
) -> None:
    await serve(frontend, engine)
    await engine.post("/_control", {"crash_after": 1, "tokens_per_s": 200})
    status, raw, _ = await post(frontend, path, body | {"stream": True})
    assert status == 200
    if path.startswith("/api/"):
        found = lines(raw)
        assert len(found) > 1
        assert found[-1]["error"]
        assert not any(line.get("done") for line in found)
        return
    events = server_sent(raw)
    assert "error" in [event["type"] for event in events[-2:]]
    assert events[-1]["type"] in ("error", "response.failed")


async def test_client_that_leaves_stops_the_engine(frontend: RunningFrontend, engine: Engine) -> None:
    replica = await serve(frontend, engine)
    await engine.post("/_control", {"tokens_per_s": 5})

    async def is_let_go() -> bool:
        own = frontend.core.router.leases.count_own_by_replica()
        return replica.id not in own and (await engine.numbers())["running"] == 0

    for path, body in REQUESTS:
        async with aiohttp.ClientSession() as session:
            url = f"{frontend.url}{path}"
            async with session.post(url, json=body | {"stream": True}, headers=AUTHORISED) as answer:
                assert await answer.content.readany()
        await eventually(is_let_go)


async def test_answer_names_in_its_head_what_of_a_request_of_codex_was_left_out(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "fake") as engine:
        engine.answers["/v1/chat/completions"] = (200, whole({"content": "hi"}))
        tools = [{"type": "function", "name": "a"}, {"type": "odd\r\nx: y"}, {"type": "web_search"}]
        status, _, headers = await post(frontend, "/v1/responses", RESPONSE | {"tools": tools})
        assert (status, headers["x-corral-ignored"]) == (200, "tools.odd??x:?y, tools.web_search")
