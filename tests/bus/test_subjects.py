"""The registry and the codec by themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.bus.codec import BadMessage, decode, decode_reply, encode, encode_error
from corral.bus.messages import NodeDescription, StopNodeReply, WorkerHello
from corral.bus.subjects import (
    FRONTENDS_WAKE,
    NODE_DESCRIBE,
    NODE_WAKE,
    SUBJECTS,
    BusRole,
    SubjectSpec,
    format_pattern,
    format_subject,
    make_inbox_prefix,
    make_permissions,
    parse_node,
    render_reference,
    sanitise_token,
)
from corral.domain.errors import Conflict, CorralError, InvalidRequest


@pytest.mark.behaviour("OPS-92")
@given(st.text(min_size=1))
def test_id_becomes_one_harmless_token_the_same_in_subjects_and_permissions(node: str) -> None:
    built = format_subject(NODE_WAKE, node=node)
    assert built.split(".") == ["nodes", sanitise_token(node), "wake"]
    assert not set(".*>\t\r\n \x00") & set(sanitise_token(node))
    assert sanitise_token(sanitise_token(node)) == sanitise_token(node)
    assert built in make_permissions(BusRole.WORKER, node).subscribe_allow
    assert parse_node(NODE_WAKE, built) == sanitise_token(node)
    assert make_inbox_prefix(node) == f"_INBOX.{sanitise_token(node)}"


def test_subject_needs_a_node_exactly_when_its_template_has_one() -> None:
    with pytest.raises(InvalidRequest, match=r"node\.wake needs a node id"):
        format_subject(NODE_WAKE)
    with pytest.raises(InvalidRequest, match="does not belong to a node"):
        format_subject(FRONTENDS_WAKE, node="n1")
    with pytest.raises(InvalidRequest, match="empty id"):
        format_subject(NODE_WAKE, node="")
    assert format_pattern(NODE_WAKE) == "nodes.*.wake"
    assert parse_node(FRONTENDS_WAKE, "frontends.wake") is None


def test_nodes_permissions_name_no_wildcard_but_its_own_inbox() -> None:
    for role in (BusRole.WORKER, BusRole.AGENT):
        allowed = make_permissions(role, "n1")
        for entry in allowed.publish_allow + allowed.subscribe_allow:
            assert entry == "_INBOX.n1.>" or not set("*>") & set(entry)


@pytest.mark.parametrize("spec", SUBJECTS, ids=lambda spec: spec.name)
def test_replies_have_no_field_that_would_be_taken_for_an_error(spec: SubjectSpec[Any, Any]) -> None:
    if spec.reply is not None:
        assert "error" not in {field.name for field in dataclasses.fields(spec.reply)}


def test_names_and_templates_are_used_once() -> None:
    assert len({spec.name for spec in SUBJECTS}) == len({spec.template for spec in SUBJECTS}) == len(SUBJECTS)


def test_reference_has_a_row_for_every_subject() -> None:
    page = render_reference()
    for spec in SUBJECTS:
        assert page.count(f"`{spec.template.replace('{node}', '<node>')}`") == 1
        assert spec.doc in page
    assert "| 2 s |" in page


def test_subject_that_contradicts_itself_cannot_be_registered() -> None:
    with pytest.raises(AssertionError, match="only a request has a reply"):
        dataclasses.replace(NODE_DESCRIBE, reply=None)
    with pytest.raises(AssertionError, match="only a request has a timeout"):
        dataclasses.replace(NODE_WAKE, timeout_s=1.0)


@given(
    st.builds(
        NodeDescription,
        node_id=st.text(),
        boot_id=st.text(),
        name=st.text(),
        version=st.text(),
        uptime_s=st.floats(min_value=0, max_value=1e12),
        hardware=st.dictionaries(st.text(), st.integers() | st.text() | st.booleans() | st.none()),
    )
)
def test_encoded_message_is_decoded_to_the_same_value(message: NodeDescription) -> None:
    assert decode(NodeDescription, encode(message, subject="s"), subject="s") == message


def test_unknown_fields_are_ignored_and_a_missing_one_is_named() -> None:
    assert decode(WorkerHello, b'{"boot_id": "b", "later": 1}', subject="s") == WorkerHello(boot_id="b")
    with pytest.raises(BadMessage, match=r"nodes\.n1\.hello is not a valid WorkerHello: boot_id"):
        decode(WorkerHello, b"{}", subject="nodes.n1.hello")
    with pytest.raises(BadMessage, match="accepted"):
        decode(StopNodeReply, b'{"accepted": "yes", "boot_id": "b"}', subject="s")


def test_error_travels_with_its_class_and_code() -> None:
    with pytest.raises(Conflict, match="Not now") as known:
        decode_reply(StopNodeReply, encode_error(Conflict("Not now.", code="busy_now")), subject="s")
    with pytest.raises(CorralError, match="New kind"):
        decode_reply(StopNodeReply, b'{"error": {"code": "from_the_future", "message": "New kind."}}', subject="s")
    assert known.value.slug == "busy_now"
