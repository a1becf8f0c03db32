"""The parts of the runner that need no process: splitters, guided schemas, compaction, names, masks, messages."""

from __future__ import annotations

import itertools
import json
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import TooLarge
from corral.runner.compaction import estimate_tokens, make_pieces, plan_compaction
from corral.runner.guided import AnswerReader, make_step_format, may_become_call, read_step, read_written_calls
from corral.runner.line_splitter import LineSplitter
from corral.runner.schema_checker import find_problem
from corral.runner.secret_masker import MASK, SecretMasker
from corral.runner.think_splitter import ThinkSplitter
from corral.runner.tool_catalog import CHARACTERS_MAX, TOOLS_MAX, RunTool, RunToolCatalog, ToolKind
from corral.wire.run_work import McpServerSpec, RunSpec
from corral.wire.runner_protocol import (
    LINE_BYTES_MAX,
    TO_RUNNER,
    TO_WORKER,
    CancelMessage,
    EventMessage,
    MalformedLine,
    StartMessage,
    decode_line,
    encode_line,
)


def _split(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in itertools.pairwise(places)]


@pytest.mark.behaviour("AGENT-21")
@given(
    st.text(alphabet="ab< >/thinkg", max_size=20),
    st.text(alphabet="ab< >/thinkg", max_size=20),
    st.lists(st.integers(0, 80), max_size=30),
)
def test_think_splitter_finds_the_same_parts_however_the_text_is_cut(
    thought: str, answer: str, cuts: list[int]
) -> None:
    text = f"<think>{thought}</think>{answer}<thinking>x</thinking>."

    def split(pieces: list[str]) -> tuple[str, str]:
        splitter = ThinkSplitter()
        parts = [part for piece in pieces for part in splitter.feed(piece)] + list(splitter.finish())
        reasoning = "".join(part.text for part in parts if part.is_reasoning)
        return reasoning, "".join(part.text for part in parts if not part.is_reasoning)

    assert split(_split(text, cuts)) == split([text])


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line)), st.lists(st.integers(0, 200)))
def test_line_splitter_gives_the_lines_that_fit_and_counts_the_others(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    splitter = LineSplitter(8)
    found = [line for begin, end in itertools.pairwise(places) for line in splitter.feed(data[begin:end])]
    assert found == [line for line in lines if len(line) <= 8]
    assert splitter.too_long == sum(len(line) > 8 for line in lines)


def _make_tool(name: str, schema: dict[str, Any]) -> RunTool:
    return RunTool(name=name, kind=ToolKind.MCP, schema=schema)


def test_guided_schema_keeps_the_references_of_each_tool_apart() -> None:
    def make_schema(kind: str) -> dict[str, Any]:
        definition = {"type": kind, "anyOf": [{"$ref": "#/$defs/Thing"}, {}]}
        return {"type": "object", "properties": {"x": {"$ref": "#/$defs/Thing"}}, "$defs": {"Thing": definition}}

    tools = [_make_tool("a", make_schema("string")), _make_tool("b", make_schema("integer"))]
    schema = make_step_format(tools, None)["json_schema"]["schema"]
    kinds = {}
    for variant in schema["anyOf"][:2]:
        reference = variant["properties"]["arguments"]["properties"]["x"]["$ref"]
        definition = schema["$defs"][reference.removeprefix("#/$defs/")]
        assert definition["anyOf"][0]["$ref"] == reference
        kinds[variant["properties"]["tool"]["const"]] = definition["type"]
    assert kinds == {"a": "string", "b": "integer"}


@given(st.text(), st.integers(1, 7), st.booleans())
def test_guided_answer_is_shown_whole_in_any_pieces(answer: str, size: int, is_escaped: bool) -> None:
    text = json.dumps({"answer": answer}, ensure_ascii=is_escaped)
    reader = AnswerReader()
    shown = "".join(reader.feed(text[start : start + size]) for start in range(0, len(text), size))
    step = read_step(reader.text)
    assert isinstance(step, str)
    assert shown + reader.finish(step) == answer


@pytest.mark.parametrize(
    "text", ["", "{}", "null", "[]", "5", '{"name": "other", "arguments": {}}', '{"name": "add"}', "{ broken", "add"]
)
def test_answers_that_are_no_calls_are_not_taken_for_calls(text: str) -> None:
    assert text == "[]" or read_written_calls(text, ["add"]) == []
    assert read_written_calls("[]", ["add"]) == []


@pytest.mark.parametrize(
    "call", ['{"name": "a"', '[ {"name"', '```json\n{ "tool"', "<tool_call>\n{", "[TOOL_CALLS] [{"]
)
def test_beginnings_of_calls_are_held_back_at_every_length(call: str) -> None:
    assert all(may_become_call(call[:size]) for size in range(len(call) + 1))


@pytest.mark.parametrize(
    "text", ["```python\nprint(1)", "[1] says", "{curly}", "<b>", "Hello", "``code``", "[link](x)"]
)
def test_beginnings_of_other_answers_are_shown(text: str) -> None:
    assert not may_become_call(text)


def test_compaction_leaves_a_conversation_that_fits_as_it_is() -> None:
    messages = [{"role": "user", "content": "x" * 400}]
    assert plan_compaction(messages, 100, 1.0) is None
    assert plan_compaction(messages, 0, 1.0) is None
    # Nothing is older than the last message of the user.
    assert plan_compaction(messages, 10, 1.0) is None


@given(st.lists(st.sampled_from(["user", "assistant", "call"]), max_size=12), st.integers(1, 400))
def test_compaction_keeps_pairs_and_the_last_user_message(kinds: list[str], limit: int) -> None:
    messages: list[dict[str, Any]] = []
    for number, kind in enumerate(kinds):
        if kind == "call":
            function = {"name": "t", "arguments": "{}"}
            call = {"id": f"c{number}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "r" * 60})
        else:
            messages.append({"role": kind, "content": f"{number} " + "w" * 60})
    plan = plan_compaction(messages, limit, 1.0)
    if plan is None:
        return
    kept = list(plan.kept)
    assert [message for message in messages if message in kept] == kept
    assert len(kept) + len(plan.replaced) == len(messages)
    users = [message for message in messages if message["role"] == "user"]
    assert not users or users[-1] in kept
    calls = {call["id"] for message in kept for call in message.get("tool_calls", ())}
    assert calls == {message["tool_call_id"] for message in kept if message["role"] == "tool"}


def test_pictures_cost_the_same_however_large_they_are() -> None:
    def make(size: int) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x" * size}}]}

    assert estimate_tokens([make(10)]) == estimate_tokens([make(10_000_000)])


def test_pieces_of_a_summary_are_bounded() -> None:
    pieces = make_pieces([{"role": "user", "content": "x" * 1_000_000}], 1000)
    assert len(pieces) == 8
    assert max(map(len, pieces)) <= 4001


def test_long_tool_names_are_shortened_and_stay_unique() -> None:
    catalog = RunToolCatalog({})
    for number in range(2):
        catalog.add_mcp_tool("s" * 80, f"t{number}", description="", schema={}, is_repeatable=False)
    names = [tool.name for tool in catalog]
    assert len(set(names)) == 2
    assert {len(name) for name in names} == {64}


@pytest.mark.parametrize(("characters", "kept"), [(10, TOOLS_MAX), (CHARACTERS_MAX // 8, 7)])
def test_tools_beyond_the_limits_of_a_run_are_counted_and_left_out(characters: int, kept: int) -> None:
    catalog = RunToolCatalog({})
    for _ in range(600):
        catalog.add_mcp_tool("s", "same", description="x" * characters, schema={}, is_repeatable=False)
    assert (len(catalog), catalog.left_out) == (kept, 600 - kept)


def test_rule_matches_the_configured_name_of_a_server_too() -> None:
    catalog = RunToolCatalog({"my server__*": "deny"})
    catalog.add_mcp_tool("my server", "add", description="", schema={}, is_repeatable=False)
    assert [(tool.name, tool.rule) for tool in catalog] == [("my_server__add", "deny")]


def test_expressions_of_a_schema_are_not_run() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    assert find_problem(schema, {"x": "a" * 60 + "!"}) is None
    assert find_problem(schema, {"x": 5}) is not None
    assert find_problem({"type": "string", "pattern": "^(a+)+$"}, 5) == "5 is not of type 'string'"


def test_expressions_are_not_run_in_parts_that_are_checked_by_the_dialect_of_their_schema() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "pattern": "^(a+)+$",
        "properties": {"same": {"$ref": "#"}, "number": {"type": "integer"}},
    }
    problem = find_problem(schema, {"same": "a" * 60 + "!", "number": "none"})
    assert problem == "number: 'none' is not of type 'integer'"
    inner = {"$schema": schema["$schema"], "pattern": "^(a+)+$"}
    assert find_problem({"not": inner}, "a" * 60 + "!") is None


def _double(keyword: str, names: list[str]) -> dict[str, Any]:
    """Return a schema whose parts each refer to the next one twice, so that a check has 2^60 parts."""
    parts: dict[str, Any] = {"p60": {}}
    for number in range(60):
        following = {"$ref": f"#/$defs/p{number + 1}"}
        parts[f"p{number}"] = {keyword: dict.fromkeys(names, following) if names else [following, following]}
    return {"$defs": parts, "$ref": "#/$defs/p0"}


@pytest.mark.behaviour("RUNNER-21")
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (_double("allOf", []), {}),
        ({"unevaluatedProperties": True, **_double("dependentSchemas", ["a", "b"])}, {"a": 1, "b": 2}),
        ({"uniqueItems": True}, [{"a": number} for number in range(100_000)]),
    ],
)
def test_schema_that_keeps_the_runner_busy_is_given_up(schema: dict[str, Any], value: object) -> None:
    assert find_problem(schema, value) is None
    assert find_problem({"type": "object"}, 5) == "5 is not of type 'object'"
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


@pytest.mark.parametrize("schema", [{"type": 5}, {"$ref": "#/nowhere"}, {"$ref": "http://127.0.0.1:9/x"}])
def test_broken_schema_checks_nothing(schema: dict[str, Any]) -> None:
    assert find_problem(schema, {"x": 1}) is None


def test_secrets_are_masked_as_long_as_they_are_in_use() -> None:
    masker = SecretMasker()
    server = McpServerSpec(
        name="s",
        transport="http",
        headers={"Authorization": 'Bearer quo"ted-secret'},
        env={"FOLDER": "/home/somebody", "MY_TOKEN": "abcdefgh", "SHORT": "on"},
    )
    run = RunSpec(run_id="r", kind="chat", model="m", ticket="ticket-1", mcp_servers=[server])
    masker.add_run(run)
    masker.add_server(server)
    masker.remove_server(server)
    text = 'on ticket-1 abcdefgh /home/somebody quo"ted-secret'
    assert masker.mask(text) == f"on {MASK} {MASK} {MASK} {MASK}"
    assert masker.mask(json.dumps(text)) == json.dumps(f"on {MASK} {MASK} {MASK} {MASK}", ensure_ascii=False)
    assert masker.mask_result(text) == f"on {MASK} {MASK} /home/somebody {MASK}"
    masker.remove_run(run)
    assert masker.mask(text) == text
    assert "ticket" not in repr(masker)


def test_messages_survive_the_way_over_the_pipe() -> None:
    start = StartMessage(run_id="r", spec=RunSpec(run_id="r", kind="chat", model="m", ticket="t"))
    assert decode_line(encode_line(start).strip(), TO_RUNNER) == start
    event = EventMessage.model_validate({"run_id": "r", "event_type": "content", "data": {"text": "a\nb"}})
    assert encode_line(event).count(b"\n") == 1
    assert decode_line(encode_line(event), TO_WORKER) == event
    assert decode_line(b'{"type": "cancel", "run_id": "r", "new": 1}', TO_RUNNER) == CancelMessage(run_id="r")
    assert decode_line(b'{"type": "unheard_of"}', TO_RUNNER) is None


@pytest.mark.parametrize("line", [b"{", b"[]", b"5", b'{"type": 5}', b"\xff", b'{"type": "cancel", "run_id": 5}'])
def test_malformed_line_is_an_error_without_its_content(line: bytes) -> None:
    with pytest.raises(MalformedLine) as caught:
        decode_line(line, TO_RUNNER)
    assert "5" not in caught.value.message


def test_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(TooLarge):
        encode_line(EventMessage.model_validate({"run_id": "x" * LINE_BYTES_MAX, "event_type": "content"}))
