"""Which nodes an operation goes to, and what each of them is to get."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.backends.asking import plan_out
from corral.domain.backend import Assignment, Build, Desired, InstalledBackend, Manifest, Source, SourceKind
from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound
from corral.domain.node import Hardware, Liveness, Node, NodeId, NodeType
from corral.domain.operation import OperationId, Strategy
from corral.operations.planning import Planned, plan_targets
from corral.operations.scope import is_same_intent, plain_name, scope_key
from corral.policy.planning import PlannedTarget, has_build, in_waves
from tests.operations.scene import SIZE, asked, catalog, names, there

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SHA = "ab" * 32


def node(name: str, capability: str = "cpu", **more: Any) -> Node:
    values: dict[str, Any] = {"type": NodeType.BACKEND, "approved_at": NOW, "bus_ok": True, "backends_at": NOW} | more
    return Node(
        id=NodeId(f"id-{name}"),
        name=name,
        credential_hash="",
        boot_id="b",
        hardware=Hardware(capability=capability),
        liveness_since=NOW,
        created_at=NOW,
        updated_at=NOW,
        **values,
    )


CPU, CUDA = node("a"), node("b", "nvidia")
OFFLINE = node("away", liveness=Liveness.LOST)
PENDING = node("new", approved_at=None)
AGENT = node("agent", type=NodeType.AGENT)
DRAINED = node("drained", drained_at=NOW)


def planned(wish: Any, nodes: list[Node], has: dict[str, list[InstalledBackend]] | None = None, **more: Any) -> Planned:
    installed = {NodeId(f"id-{name}"): tuple(items) for name, items in (has or {}).items()}
    return plan_targets(wish, nodes, installed, catalog(), **more)


def builds(plan: Planned) -> dict[str, tuple[str, str]]:
    return {target.node.name: (target.backend, target.build.version if target.build else "") for target in plan.targets}


def refused(wish: Any, nodes: list[Node], has: dict[str, list[InstalledBackend]] | None = None) -> CorralError:
    with pytest.raises(CorralError) as caught:
        planned(wish, nodes, has)
    return caught.value


@pytest.mark.behaviour("OPS-45")
@pytest.mark.behaviour("NODE-124")
def test_a_fleet_means_every_node_that_can_have_it_and_says_why_the_others_do_not() -> None:
    plan = planned(asked(), [CPU, CUDA, OFFLINE, PENDING, AGENT, DRAINED])
    assert builds(plan) == {"a": ("cpu-engine", "2.0"), "b": ("cuda-engine", "2.0"), "away": ("cpu-engine", "2.0")}
    assert {skipped.name for skipped, _ in plan.skipped} == {"new", "agent", "drained"}
    assert all(reason for _, reason in plan.skipped)
    assert all(target.desired is Desired.PRESENT for target in plan.targets)


@pytest.mark.behaviour("OPS-45")
def test_a_node_without_a_build_for_its_hardware_is_skipped_in_a_fleet_and_an_error_when_named() -> None:
    plan = planned(asked("gpu-only"), [CPU, CUDA])
    assert names(plan.targets) == ["b"]
    assert [(skipped.name, "cpu" in reason) for skipped, reason in plan.skipped] == [("a", True)]
    error = refused(asked("gpu-only", nodes=("a", "b")), [CPU, CUDA])
    assert (error.status, error.slug) == (422, "no_build_for_node")


@pytest.mark.behaviour("OPS-45")
@pytest.mark.parametrize(
    ("reference", "status", "code"),
    [
        ("nobody", 404, "node_not_found"),
        ("new", 409, "node_pending"),
        ("agent", 409, "node_is_agent"),
        ("drained", 409, "node_draining"),
    ],
)
@pytest.mark.parametrize("kind", ["install", "upgrade", "reinstall", "delete"])
def test_a_named_node_that_cannot_have_it_refuses_the_request(
    kind: str, reference: str, status: int, code: str
) -> None:
    has = {name: [there()] for name in ("a", "new", "agent", "drained")}
    error = refused(asked(kind=kind, nodes=("a", reference)), [CPU, PENDING, AGENT, DRAINED], has)
    assert (error.status, error.slug, bool(error.hint)) == (status, code, True)


@pytest.mark.behaviour("OPS-45")
@pytest.mark.parametrize("nodes", [[], [PENDING, AGENT, DRAINED]])
def test_no_node_left_is_an_error_that_says_why_each_was_left_out(nodes: list[Node]) -> None:
    error = refused(asked(), nodes)
    assert isinstance(error, Conflict)
    assert error.slug == "no_eligible_nodes"
    skipped = error.details["skipped"]
    assert isinstance(skipped, list)
    assert len(skipped) == len(nodes)


@pytest.mark.behaviour("OPS-45")
def test_an_empty_list_of_nodes_is_refused_and_never_means_all() -> None:
    error = refused(asked(nodes=()), [CPU])
    assert isinstance(error, InvalidRequest)
    assert error.slug == "no_nodes"


@pytest.mark.behaviour("OPS-56")
@pytest.mark.parametrize("name", ["cpu-engine", "corral@cpu-engine", "CPU-Engine"])
def test_a_build_for_particular_hardware_needs_nodes_and_the_answer_names_its_meta(name: str) -> None:
    error = refused(asked(name), [CPU, CUDA])
    assert (error.status, error.slug) == (409, "concrete_backend_requires_target")
    assert error.details["meta_alternative"] == "engine"
    assert builds(planned(asked(name, nodes=("a",)), [CPU, CUDA])) == {"a": ("cpu-engine", "2.0")}


@pytest.mark.behaviour("OPS-56")
def test_a_concrete_that_no_meta_names_goes_to_a_whole_fleet() -> None:
    assert names(planned(asked("solo"), [CPU, CUDA]).targets) == ["a", "b"]


@pytest.mark.behaviour("OPS-55")
@pytest.mark.behaviour("NODE-126")
def test_an_upgrade_goes_only_to_nodes_that_have_it_and_to_what_each_has() -> None:
    has = {"a": [there("cpu-engine", "1.0")], "b": [there("solo")]}
    plan = planned(asked(kind="upgrade"), [CPU, CUDA], has)
    assert builds(plan) == {"a": ("cpu-engine", "2.0")}
    assert plan.targets[0].desired is Desired.REPLACED
    assert (plan.targets[0].previous or {})["version"] == "1.0"
    assert plan.targets[0].build is not None
    assert plan.targets[0].build.meta == "engine"
    assert [skipped.name for skipped, _ in plan.skipped] == ["b"]


@pytest.mark.behaviour("OPS-55")
@pytest.mark.behaviour("NODE-126")
@pytest.mark.parametrize("kind", ["upgrade", "reinstall", "delete"])
@pytest.mark.parametrize("nodes", [None, ("a",)])
def test_what_no_node_has_cannot_be_upgraded_or_removed(kind: str, nodes: tuple[str, ...] | None) -> None:
    error = refused(asked(kind=kind, nodes=nodes), [CPU, CUDA])
    assert isinstance(error, NotFound)
    assert error.slug == "backend_not_installed"


def test_a_node_that_has_never_reported_is_not_said_to_have_nothing() -> None:
    silent = node("silent", backends_at=None)
    assert "has not told" in refused(asked(kind="delete", nodes=("silent",)), [silent]).message


def test_an_upgrade_to_what_is_there_is_refused_and_a_reinstallation_is_not() -> None:
    has = {"a": [there("cpu-engine", "2.0")]}
    assert refused(asked(kind="upgrade"), [CPU], has).slug == "already_current"
    plan = planned(asked(kind="reinstall"), [CPU], {"a": [there("cpu-engine", "1.0")]})
    assert builds(plan) == {"a": ("cpu-engine", "1.0")}, "the version that is there, not the newest"
    plan = planned(asked(kind="reinstall"), [CPU], {"a": [there("cpu-engine", "0.1")]})
    assert builds(plan) == {"a": ("cpu-engine", "2.0")}, "the gallery has 0.1 no longer"
    assert refused(asked(kind="upgrade", version="9"), [CPU], has).slug == "unknown_version"


def test_what_came_from_outside_every_gallery_is_reinstalled_from_where_it_came() -> None:
    mine = there("mine", "", gallery="", uri="https://example.org/mine.tar.gz")
    plan = planned(asked("mine", "reinstall"), [CPU], {"a": [mine]})
    assert plan.targets[0].build is not None
    assert plan.targets[0].build.source.uri == mine.uri


def test_a_source_outside_every_gallery_goes_to_every_node_as_it_is() -> None:
    wish = asked("mine", uri="https://example.org/mine.tar.gz", alias="other", sha256=SHA)
    plan = planned(wish, [CPU, CUDA])
    assert builds(plan) == {"a": ("mine", ""), "b": ("mine", "")}
    assert {target.build.source.sha256 for target in plan.targets if target.build} == {SHA}


def test_a_removal_takes_what_is_there_and_what_is_still_to_come() -> None:
    coming = Assignment(
        node_id=CUDA.id,
        backend="cuda-engine",
        desired=Desired.PRESENT,
        generation=3,
        operation_id=OperationId("x"),
        build={"meta": "engine"},
        created_at=NOW,
    )
    plan = planned(asked(kind="delete"), [CPU, CUDA, OFFLINE], {"a": [there()]}, owed={CUDA.id: (coming,)})
    assert {target.node.name: target.backend for target in plan.targets} == {"a": "cpu-engine", "b": "cuda-engine"}
    assert all(target.build is None and target.desired is Desired.ABSENT for target in plan.targets)


@pytest.mark.parametrize("kind", ["upgrade", "reinstall", "delete"])
def test_what_came_with_the_machine_is_left_alone(kind: str) -> None:
    error = refused(asked(kind=kind), [CPU], {"a": [there(is_system=True)]})
    assert error.slug == "system_backend"


@pytest.mark.parametrize("kind", ["upgrade", "delete"])
def test_a_meta_with_two_builds_on_one_node_has_to_be_said_more_exactly(kind: str) -> None:
    has = {"b": [there("cpu-engine"), there("cuda-engine", "1.0")]}
    assert refused(asked(kind=kind, nodes=("b",)), [CUDA], has).slug == "ambiguous_backend"
    assert names(planned(asked("cuda-engine", kind, nodes=("b",)), [CUDA], has).targets) == ["b"]


def test_installation_plan_names_the_version_that_a_node_has() -> None:
    plan = planned(asked(), [CPU, CUDA], {"a": [there("cpu-engine", "2.0")]})
    shown = {node.node_name: (node.previous_version, node.has_it) for node in plan_out(asked(), plan).nodes}
    assert shown == {"a": ("2.0", True), "b": ("", False)}


def test_bytes_to_fetch_are_told_unknown_is_not_zero_and_what_is_there_is_zero() -> None:
    plan = planned(asked(), [CPU, CUDA], {"a": [there("cpu-engine", "2.0")]})
    assert {target.node.name: target.fetch_bytes for target in plan.targets} == {"a": 0, "b": SIZE}
    outside = planned(asked("mine", uri="https://example.org/mine.tar.gz"), [CPU])
    assert outside.targets[0].fetch_bytes is None


@pytest.mark.parametrize(
    ("kind", "uri", "sha256", "digest", "is_there"),
    [
        (SourceKind.URL, "https://x", SHA, f"sha256:{SHA}", True),
        (SourceKind.URL, "https://x", SHA, "cd" * 32, False),
        (SourceKind.URL, "https://x", "", "cd" * 32, True),
        (SourceKind.OCI, "registry/x:latest", "", f"sha256:{SHA}", False),
        (SourceKind.OCI, f"registry/x@sha256:{SHA}", "", f"sha256:{SHA}", True),
        (SourceKind.OCI, f"registry/x@sha256:{SHA}", "", "sha256:" + "cd" * 32, False),
    ],
)
def test_the_same_version_is_the_same_build_unless_its_digest_says_otherwise(
    kind: SourceKind, uri: str, sha256: str, digest: str, is_there: bool
) -> None:
    build = Build(
        name="x", version="1", source=Source(kind=kind, uri=uri, sha256=sha256), manifest=Manifest(), gallery="g"
    )
    assert has_build(InstalledBackend(name="x", version="1", digest=digest), build) is is_there
    assert not has_build(InstalledBackend(name="x", version="2", digest=digest), build)


@given(count=st.integers(0, 40), waves=st.lists(st.integers(1, 7), max_size=4), away=st.sets(st.integers(0, 39)))
def test_waves_hold_every_node_once_in_their_sizes_and_absent_nodes_come_last(
    count: int, waves: list[int], away: set[int]
) -> None:
    nodes = [
        node(f"n{index:02}", liveness=Liveness.LOST if index in away else Liveness.ALIVE) for index in range(count)
    ]
    targets = [PlannedTarget(node=item, backend="x", desired=Desired.REPLACED) for item in reversed(nodes)]
    ordered = in_waves(targets, waves)
    assert sorted(target.node.name for target in ordered) == [item.name for item in nodes]
    numbers = [target.wave for target in ordered]
    assert numbers == sorted(numbers)
    for wave in set(numbers):
        size = waves[min(wave, len(waves) - 1)] if waves else count
        assert numbers.count(wave) == size or wave == numbers[-1]
    is_away = [target.node.liveness is Liveness.LOST for target in ordered]
    assert is_away == sorted(is_away)


@pytest.mark.parametrize("waves", [(0,), (1, -1), (1,) * 101])
def test_a_wave_without_nodes_is_refused(waves: tuple[int, ...]) -> None:
    assert refused(asked(strategy=Strategy(waves=waves)), [CPU]).slug == "bad_waves"


@pytest.mark.parametrize("name", ["", "  ", "x" * 256, "a\nb"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    assert refused(asked(name), [CPU]).slug == "bad_backend_name"


def test_an_unknown_backend_is_404_before_any_node_is_looked_at() -> None:
    error = refused(asked("enjine"), [])
    assert (error.status, error.slug) == (404, "backend_not_found")


def test_a_node_that_is_named_twice_is_one_target() -> None:
    assert names(planned(asked(nodes=("a", "id-a", "a")), [CPU]).targets) == ["a"]


@pytest.mark.behaviour("OPS-26")
def test_the_scope_is_the_same_however_it_is_spelled_and_names_with_colons_stay_whole() -> None:
    first, second = NodeId("id-1"), NodeId("id-2")
    assert plain_name("corral@odd:name") == "odd:name"
    assert scope_key(asked("corral@Engine"), None) == scope_key(asked("engine"), None) == "backend:fleet:engine"
    assert scope_key(asked("odd:name"), [first]) == "backend:nodes=id-1:odd:name"
    assert scope_key(asked(), [second, first]) == scope_key(asked(), [first, second, first])
    assert len({scope_key(asked(), wanted) for wanted in (None, [first], [second], [first, second])}) == 4
    many = [NodeId(f"{number:036}") for number in range(1000)]
    assert len(scope_key(asked("x" * 255), many)) <= 512
    assert scope_key(asked(), many) != scope_key(asked(), many[1:])


@pytest.mark.parametrize(
    "other",
    [
        asked(kind="delete"),
        asked(version="1.0"),
        asked(uri="https://x"),
        asked(alias="y"),
        asked(sha256=SHA),
        asked(ignores_capability=True),
        asked(deadline_s=5.0),
        asked(strategy=Strategy(waves=(1,))),
    ],
)
def test_anything_else_that_was_asked_for_is_another_intent(other: Any) -> None:
    assert is_same_intent(asked(), asked("corral@engine", nodes=("a",)).to_json()), "spelling and nodes are the scope"
    assert not is_same_intent(asked(), other.to_json())


@pytest.mark.behaviour("OP-1")
def test_going_back_is_for_nodes_that_have_kept_an_earlier_version() -> None:
    has = {"a": [there(previous_version="0.9")], "b": [there("cuda-engine")], "away": [there(previous_version="0.8")]}
    plan = planned(asked("engine", "rollback"), [CPU, CUDA, OFFLINE], has)
    assert [(target.node.name, target.backend, target.desired, target.fetch_bytes) for target in plan.targets] == [
        ("a", "cpu-engine", Desired.ROLLED_BACK, 0),
        ("away", "cpu-engine", Desired.ROLLED_BACK, 0),
    ]
    assert [(skipped.name, "no earlier version" in reason) for skipped, reason in plan.skipped] == [("b", True)]
    assert refused(asked("engine", "rollback"), [CUDA], has).slug == "nothing_to_roll_back"
    assert refused(asked("engine", "rollback", nodes=("a",)), [CPU]).slug == "backend_not_installed"


def test_going_back_takes_neither_a_version_nor_an_address() -> None:
    has = {"a": [there(previous_version="0.9")]}
    assert refused(asked("engine", "rollback", version="0.8"), [CPU], has).slug == "unknown_version"
    assert refused(asked("engine", "rollback", uri="/opt/engine"), [CPU], has).slug == "bad_backend_name"
