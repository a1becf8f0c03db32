"""Which nodes an operation goes to, and what each of them is to get."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.backends.operation_requests import plan_to_wire
from corral.domain.backend import Assignment, BackendSource, Build, DesiredState, InstalledBackend, Manifest, SourceKind
from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound
from corral.domain.node import Hardware, Liveness, Node, NodeId, NodeType
from corral.domain.operation import OperationId, RolloutStrategy
from corral.operations.backend_plan import (
    BackendOperationPlan,
    is_same_request,
    make_scope_key,
    plan_targets,
)
from corral.policy.operation_plan import PlannedTarget, assign_waves, has_build, strip_gallery
from tests.operations.scene import SIZE, catalog, make_spec, names, there

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


def planned(
    spec: Any, nodes: list[Node], has: dict[str, list[InstalledBackend]] | None = None, **more: Any
) -> BackendOperationPlan:
    installed = {NodeId(f"id-{name}"): tuple(items) for name, items in (has or {}).items()}
    return plan_targets(spec, nodes, installed, catalog(), **more)


def builds(plan: BackendOperationPlan) -> dict[str, tuple[str, str]]:
    return {target.node.name: (target.backend, target.build.version if target.build else "") for target in plan.targets}


def refused(spec: Any, nodes: list[Node], has: dict[str, list[InstalledBackend]] | None = None) -> CorralError:
    with pytest.raises(CorralError) as caught:
        planned(spec, nodes, has)
    return caught.value


@pytest.mark.behaviour("OPS-45")
@pytest.mark.behaviour("NODE-124")
def test_fleet_means_every_node_that_can_have_it_and_says_why_the_others_do_not() -> None:
    plan = planned(make_spec(), [CPU, CUDA, OFFLINE, PENDING, AGENT, DRAINED])
    assert builds(plan) == {"a": ("cpu-engine", "2.0"), "b": ("cuda-engine", "2.0"), "away": ("cpu-engine", "2.0")}
    assert {skipped.name for skipped, _ in plan.skipped} == {"new", "agent", "drained"}
    assert all(reason for _, reason in plan.skipped)
    assert all(target.desired is DesiredState.PRESENT for target in plan.targets)


@pytest.mark.behaviour("OPS-45")
def test_node_without_a_build_for_its_hardware_is_skipped_in_a_fleet_and_an_error_when_named() -> None:
    plan = planned(make_spec("gpu-only"), [CPU, CUDA])
    assert names(plan.targets) == ["b"]
    assert [(skipped.name, "cpu" in reason) for skipped, reason in plan.skipped] == [("a", True)]
    error = refused(make_spec("gpu-only", nodes=("a", "b")), [CPU, CUDA])
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
def test_named_node_that_cannot_have_it_refuses_the_request(kind: str, reference: str, status: int, code: str) -> None:
    has = {name: [there()] for name in ("a", "new", "agent", "drained")}
    error = refused(make_spec(kind=kind, nodes=("a", reference)), [CPU, PENDING, AGENT, DRAINED], has)
    assert (error.status, error.slug, bool(error.hint)) == (status, code, True)


@pytest.mark.behaviour("OPS-45")
@pytest.mark.parametrize("nodes", [[], [PENDING, AGENT, DRAINED]])
def test_plan_without_nodes_is_an_error_that_says_why_each_was_left_out(nodes: list[Node]) -> None:
    error = refused(make_spec(), nodes)
    assert isinstance(error, Conflict)
    assert error.slug == "no_eligible_nodes"
    skipped = error.details["skipped"]
    assert isinstance(skipped, list)
    assert len(skipped) == len(nodes)


@pytest.mark.behaviour("OPS-45")
def test_empty_list_of_nodes_is_refused_and_never_means_all() -> None:
    error = refused(make_spec(nodes=()), [CPU])
    assert isinstance(error, InvalidRequest)
    assert error.slug == "no_nodes"


@pytest.mark.behaviour("OPS-56")
@pytest.mark.parametrize("name", ["cpu-engine", "corral@cpu-engine", "CPU-Engine"])
def test_build_for_particular_hardware_needs_nodes_and_the_answer_names_its_meta(name: str) -> None:
    error = refused(make_spec(name), [CPU, CUDA])
    assert (error.status, error.slug) == (409, "concrete_backend_requires_target")
    assert error.details["meta_alternative"] == "engine"
    assert builds(planned(make_spec(name, nodes=("a",)), [CPU, CUDA])) == {"a": ("cpu-engine", "2.0")}


@pytest.mark.behaviour("OPS-56")
def test_concrete_that_no_meta_names_goes_to_a_whole_fleet() -> None:
    assert names(planned(make_spec("solo"), [CPU, CUDA]).targets) == ["a", "b"]


@pytest.mark.behaviour("OPS-55")
@pytest.mark.behaviour("NODE-126")
def test_upgrade_goes_only_to_nodes_that_have_it_and_to_what_each_has() -> None:
    has = {"a": [there("cpu-engine", "1.0")], "b": [there("solo")]}
    plan = planned(make_spec(kind="upgrade"), [CPU, CUDA], has)
    assert builds(plan) == {"a": ("cpu-engine", "2.0")}
    assert plan.targets[0].desired is DesiredState.REPLACED
    assert (plan.targets[0].previous or {})["version"] == "1.0"
    assert plan.targets[0].build is not None
    assert plan.targets[0].build.meta == "engine"
    assert [skipped.name for skipped, _ in plan.skipped] == ["b"]


@pytest.mark.behaviour("OPS-55")
@pytest.mark.behaviour("NODE-126")
@pytest.mark.parametrize("kind", ["upgrade", "reinstall", "delete"])
@pytest.mark.parametrize("nodes", [None, ("a",)])
def test_backend_that_no_node_has_cannot_be_upgraded_or_removed(kind: str, nodes: tuple[str, ...] | None) -> None:
    error = refused(make_spec(kind=kind, nodes=nodes), [CPU, CUDA])
    assert isinstance(error, NotFound)
    assert error.slug == "backend_not_installed"


def test_node_that_has_never_reported_is_not_shown_as_empty() -> None:
    silent = node("silent", backends_at=None)
    assert "has not reported" in refused(make_spec(kind="delete", nodes=("silent",)), [silent]).message


def test_upgrade_to_what_is_there_is_refused_and_a_reinstallation_is_not() -> None:
    has = {"a": [there("cpu-engine", "2.0")]}
    assert refused(make_spec(kind="upgrade"), [CPU], has).slug == "already_current"
    plan = planned(make_spec(kind="reinstall"), [CPU], {"a": [there("cpu-engine", "1.0")]})
    assert builds(plan) == {"a": ("cpu-engine", "1.0")}, "the version that is there, not the newest"
    plan = planned(make_spec(kind="reinstall"), [CPU], {"a": [there("cpu-engine", "0.1")]})
    assert builds(plan) == {"a": ("cpu-engine", "2.0")}, "the gallery has 0.1 no longer"
    assert refused(make_spec(kind="upgrade", version="9"), [CPU], has).slug == "unknown_version"


def test_backend_from_an_address_is_reinstalled_from_that_address() -> None:
    mine = there("mine", "", gallery="", uri="https://example.org/mine.tar.gz")
    plan = planned(make_spec("mine", "reinstall"), [CPU], {"a": [mine]})
    assert plan.targets[0].build is not None
    assert plan.targets[0].build.source.uri == mine.uri


def test_source_outside_every_gallery_goes_to_every_node_as_it_is() -> None:
    spec = make_spec("mine", uri="https://example.org/mine.tar.gz", alias="other", sha256=SHA)
    plan = planned(spec, [CPU, CUDA])
    assert builds(plan) == {"a": ("mine", ""), "b": ("mine", "")}
    assert {target.build.source.sha256 for target in plan.targets if target.build} == {SHA}


def test_removal_covers_installed_and_pending_builds() -> None:
    coming = Assignment(
        node_id=CUDA.id,
        backend="cuda-engine",
        desired=DesiredState.PRESENT,
        generation=3,
        operation_id=OperationId("x"),
        build={"meta": "engine"},
        created_at=NOW,
    )
    plan = planned(make_spec(kind="delete"), [CPU, CUDA, OFFLINE], {"a": [there()]}, assignments={CUDA.id: (coming,)})
    assert {target.node.name: target.backend for target in plan.targets} == {"a": "cpu-engine", "b": "cuda-engine"}
    assert all(target.build is None and target.desired is DesiredState.ABSENT for target in plan.targets)


@pytest.mark.parametrize("kind", ["upgrade", "reinstall", "delete"])
def test_system_backend_is_left_alone(kind: str) -> None:
    error = refused(make_spec(kind=kind), [CPU], {"a": [there(is_system=True)]})
    assert error.slug == "system_backend"


@pytest.mark.parametrize("kind", ["upgrade", "delete"])
def test_meta_with_two_builds_on_a_node_requires_a_concrete_name(kind: str) -> None:
    has = {"b": [there("cpu-engine"), there("cuda-engine", "1.0")]}
    assert refused(make_spec(kind=kind, nodes=("b",)), [CUDA], has).slug == "ambiguous_backend"
    assert names(planned(make_spec("cuda-engine", kind, nodes=("b",)), [CUDA], has).targets) == ["b"]


def test_installation_plan_names_the_version_that_a_node_has() -> None:
    plan = planned(make_spec(), [CPU, CUDA], {"a": [there("cpu-engine", "2.0")]})
    shown = {node.node_name: (node.previous_version, node.has_it) for node in plan_to_wire(make_spec(), plan).nodes}
    assert shown == {"a": ("2.0", True), "b": ("", False)}


def test_plan_states_bytes_to_fetch_as_zero_for_installed_and_none_for_unknown_sizes() -> None:
    plan = planned(make_spec(), [CPU, CUDA], {"a": [there("cpu-engine", "2.0")]})
    assert {target.node.name: target.fetch_bytes for target in plan.targets} == {"a": 0, "b": SIZE}
    outside = planned(make_spec("mine", uri="https://example.org/mine.tar.gz"), [CPU])
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
def test_equal_versions_are_equal_builds_unless_their_digests_differ(
    kind: SourceKind, uri: str, sha256: str, digest: str, is_there: bool
) -> None:
    build = Build(
        name="x", version="1", source=BackendSource(kind=kind, uri=uri, sha256=sha256), manifest=Manifest(), gallery="g"
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
    targets = [PlannedTarget(node=item, backend="x", desired=DesiredState.REPLACED) for item in reversed(nodes)]
    ordered = assign_waves(targets, waves)
    assert sorted(target.node.name for target in ordered) == [item.name for item in nodes]
    numbers = [target.wave for target in ordered]
    assert numbers == sorted(numbers)
    for wave in set(numbers):
        size = waves[min(wave, len(waves) - 1)] if waves else count
        assert numbers.count(wave) == size or wave == numbers[-1]
    is_away = [target.node.liveness is Liveness.LOST for target in ordered]
    assert is_away == sorted(is_away)


@pytest.mark.parametrize("waves", [(0,), (1, -1), (1,) * 101])
def test_wave_without_nodes_is_refused(waves: tuple[int, ...]) -> None:
    assert refused(make_spec(strategy=RolloutStrategy(waves=waves)), [CPU]).slug == "bad_waves"


@pytest.mark.parametrize("name", ["", "  ", "x" * 256, "a\nb"])
def test_name_that_cannot_be_one_is_refused(name: str) -> None:
    assert refused(make_spec(name), [CPU]).slug == "bad_backend_name"


def test_unknown_backend_is_404_before_any_node_is_looked_at() -> None:
    error = refused(make_spec("enjine"), [])
    assert (error.status, error.slug) == (404, "backend_not_found")


def test_node_that_is_named_twice_is_one_target() -> None:
    assert names(planned(make_spec(nodes=("a", "id-a", "a")), [CPU]).targets) == ["a"]


@pytest.mark.behaviour("OPS-26")
def test_scope_is_the_same_however_it_is_spelled_and_names_with_colons_stay_whole() -> None:
    first, second = NodeId("id-1"), NodeId("id-2")
    assert strip_gallery("corral@odd:name") == "odd:name"
    assert (
        make_scope_key(make_spec("corral@Engine"), None)
        == make_scope_key(make_spec("engine"), None)
        == "backend:fleet:engine"
    )
    assert make_scope_key(make_spec("odd:name"), [first]) == "backend:nodes=id-1:odd:name"
    assert make_scope_key(make_spec(), [second, first]) == make_scope_key(make_spec(), [first, second, first])
    assert len({make_scope_key(make_spec(), node_ids) for node_ids in (None, [first], [second], [first, second])}) == 4
    many = [NodeId(f"{number:036}") for number in range(1000)]
    assert len(make_scope_key(make_spec("x" * 255), many)) <= 512
    assert make_scope_key(make_spec(), many) != make_scope_key(make_spec(), many[1:])


@pytest.mark.parametrize(
    "other",
    [
        make_spec(kind="delete"),
        make_spec(version="1.0"),
        make_spec(uri="https://x"),
        make_spec(alias="y"),
        make_spec(sha256=SHA),
        make_spec(ignores_capability=True),
        make_spec(deadline_s=5.0),
        make_spec(strategy=RolloutStrategy(waves=(1,))),
    ],
)
def test_request_that_differs_in_any_option_is_another_intent(other: Any) -> None:
    assert is_same_request(make_spec(), make_spec("corral@engine", nodes=("a",)).to_json()), (
        "spelling and nodes are the scope"
    )
    assert not is_same_request(make_spec(), other.to_json())


@pytest.mark.behaviour("OP-1")
def test_going_back_is_for_nodes_that_have_kept_an_earlier_version() -> None:
    has = {"a": [there(previous_version="0.9")], "b": [there("cuda-engine")], "away": [there(previous_version="0.8")]}
    plan = planned(make_spec("engine", "rollback"), [CPU, CUDA, OFFLINE], has)
    assert [(target.node.name, target.backend, target.desired, target.fetch_bytes) for target in plan.targets] == [
        ("a", "cpu-engine", DesiredState.ROLLED_BACK, 0),
        ("away", "cpu-engine", DesiredState.ROLLED_BACK, 0),
    ]
    assert [(skipped.name, "no earlier version" in reason) for skipped, reason in plan.skipped] == [("b", True)]
    assert refused(make_spec("engine", "rollback"), [CUDA], has).slug == "nothing_to_roll_back"
    assert refused(make_spec("engine", "rollback", nodes=("a",)), [CPU]).slug == "backend_not_installed"


def test_going_back_takes_neither_a_version_nor_an_address() -> None:
    has = {"a": [there(previous_version="0.9")]}
    assert refused(make_spec("engine", "rollback", version="0.8"), [CPU], has).slug == "unknown_version"
    assert refused(make_spec("engine", "rollback", uri="/opt/engine"), [CPU], has).slug == "bad_backend_name"
