"""Which build a node gets."""

from __future__ import annotations

import pytest

from corral.domain.backend import SourceKind
from corral.domain.errors import Conflict, InvalidRequest, NotFound, Unprocessable
from corral.domain.node import Hardware
from corral.policy.catalog import CAPABILITIES, can_run_on, choose_concrete, find_capability, pick_best
from tests.backends.entries import INDEX, catalog

GIB = 1 << 30


@pytest.mark.behaviour("OPS-95")
@pytest.mark.parametrize(
    ("capability", "concrete"),
    [
        ("nvidia-cuda-12", "cuda12-brain"),
        ("nvidia", "cuda12-brain"),
        ("nvidia-cuda-13", "cpu-brain"),
        ("metal", "metal-brain"),
        ("default", "cpu-brain"),
        ("something-new", "cpu-brain"),
    ],
)
def test_meta_resolves_by_capability_and_then_by_default(capability: str, concrete: str) -> None:
    build = catalog().resolve("brain", capability)
    assert (build.name, build.meta, build.alias, build.gallery) == (concrete, "brain", "brain", "corral")


@pytest.mark.behaviour("OPS-95")
def test_meta_without_default_falls_back_to_cpu_and_then_to_nothing() -> None:
    assert choose_concrete({"cpu": "c", "nvidia": "n"}, "amd") == "c"
    assert choose_concrete({"cpu": "c", "default": "d"}, "amd") == "d"
    assert choose_concrete({"nvidia": "n"}, "amd") is None
    with pytest.raises(Unprocessable) as caught:
        catalog().resolve("only-gpu", "default")
    assert caught.value.slug == "no_build_for_node"
    assert "nvidia" in str(caught.value.hint)


@pytest.mark.behaviour("OPS-95")
def test_meta_that_names_a_build_which_is_not_there_is_refused_with_its_name() -> None:
    with pytest.raises(Unprocessable, match="lost-brain") as caught:
        catalog().resolve("brain", "amd")
    assert caught.value.slug == "no_build_for_node"


@pytest.mark.behaviour("OPS-95")
@pytest.mark.parametrize(
    ("hardware", "word"),
    [
        (Hardware(capability="metal", gpu_vendor="apple"), "metal"),
        (Hardware(gpu_vendor="nvidia", total_vram=8 * GIB), "nvidia"),
        (Hardware(gpu_vendor="nvidia", total_vram=4 * GIB), "default"),
        (Hardware(gpu_vendor="nvidia"), "default"),
        (Hardware(total_vram=8 * GIB), "default"),
        (Hardware(), "default"),
    ],
)
def test_capability_of_an_older_worker_is_its_vendor_when_it_has_memory(hardware: Hardware, word: str) -> None:
    assert find_capability(hardware) == word


@pytest.mark.behaviour("GAL-6")
@pytest.mark.parametrize("name", ["brain", "BRAIN", " brain ", "corral@brain", "Corral@Brain"])
def test_name_is_found_whatever_its_case_and_with_its_gallery(name: str) -> None:
    assert catalog().find(name).id == "corral@brain"


@pytest.mark.behaviour("GAL-6")
def test_unknown_name_is_answered_with_what_was_meant() -> None:
    with pytest.raises(NotFound) as caught:
        catalog().find("brian")
    assert caught.value.slug == "backend_not_found"
    assert caught.value.details["suggestions"] == ["brain"]
    assert caught.value.hint == "Did you mean brain?"
    for name in ("other@brain", "@brain", "", "x" * 5000):
        with pytest.raises(NotFound):
            catalog().find(name)


ALIASED = """
- {name: cpu-voice, alias: voice, uri: 'registry.example/v:cpu', license: MIT}
- {name: cuda-voice, alias: voice, uri: 'registry.example/v:cuda'}
- {name: vulkan-voice, alias: voice, uri: 'registry.example/v:vulkan'}
- {name: rocm-voice, alias: voice, uri: 'registry.example/v:rocm'}
- {name: cpu-voice-development, alias: voice, uri: 'registry.example/v:dev'}
- {name: metal-tune, alias: tune, uri: 'registry.example/t:metal'}
"""


@pytest.mark.behaviour("GAL-6")
@pytest.mark.parametrize(
    ("capability", "concrete"),
    [
        ("default", "cpu-voice"),
        ("nvidia-cuda-13", "cuda-voice"),
        ("amd", "rocm-voice"),
        ("vulkan", "vulkan-voice"),
        ("intel", "cpu-voice"),
        ("nvidia-l4t", "cuda-voice"),
    ],
)
def test_alias_resolves_to_the_best_build_that_runs_there(capability: str, concrete: str) -> None:
    build = catalog(ALIASED).resolve("voice", capability)
    assert (build.name, build.meta) == (concrete, "voice")


@pytest.mark.behaviour("GAL-6")
def test_alias_of_builds_that_run_nowhere_else_has_none_for_other_hardware() -> None:
    assert catalog(ALIASED).resolve("tune", "metal").name == "metal-tune"
    with pytest.raises(Unprocessable):
        catalog(ALIASED).resolve("tune", "default")


def test_best_of_none_is_none() -> None:
    assert pick_best([], "nvidia") is None
    assert pick_best(["b", "a"], "nvidia") == "a"
    assert pick_best(["chipmunk-cpu", "vulkan-chipmunk"], "amd") == "vulkan-chipmunk"


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        (
            "cuda12-x",
            {"nvidia", "nvidia-cuda-12", "nvidia-cuda-13", "nvidia-l4t", "nvidia-l4t-cuda-12", "nvidia-l4t-cuda-13"},
        ),
        ("nvidia-l4t-arm64-x", {"nvidia-l4t", "nvidia-l4t-cuda-12", "nvidia-l4t-cuda-13"}),
        ("rocm-x", {"amd"}),
        ("intel-sycl-f16-x", {"intel"}),
        ("metal-darwin-arm64-x", {"metal", "darwin-x86"}),
        ("mlx", {"metal", "darwin-x86"}),
        ("cpu-x", set(CAPABILITIES)),
        ("vulkan-x", set(CAPABILITIES)),
        ("linux-amd64-x", set(CAPABILITIES)),
        ("chip-hipster", set(CAPABILITIES)),
    ],
)
def test_words_in_a_name_say_where_a_build_runs(name: str, runs: set[str]) -> None:
    assert {word for word in CAPABILITIES if can_run_on(name, "", word)} == runs
    assert {word for word in CAPABILITIES if can_run_on("x", f"registry.example/y:{name}", word)} == runs


def test_concrete_build_is_refused_for_other_hardware_unless_that_is_overridden() -> None:
    with pytest.raises(Unprocessable) as caught:
        catalog().resolve("cuda12-brain", "default")
    assert caught.value.slug == "no_build_for_node"
    assert caught.value.details["meta_alternative"] == "brain"
    assert catalog().resolve("cuda12-brain", "default", ignores_capability=True).name == "cuda12-brain"
    assert catalog().resolve("corral@cuda12-brain", "nvidia").meta == "brain"


@pytest.mark.behaviour("OPS-56")
@pytest.mark.parametrize("name", ["cuda12-brain", "corral@cuda12-brain", "CORRAL@CUDA12-BRAIN"])
def test_concrete_build_knows_its_meta_also_when_it_is_named_with_its_gallery(name: str) -> None:
    assert catalog().find_meta(name) == "brain"
    assert not catalog().find(name).is_meta


@pytest.mark.behaviour("OPS-56")
def test_catalog_names_a_meta_only_for_concrete_builds() -> None:
    assert catalog().find_meta("brain") is None
    assert catalog().find_meta("ear") is None
    assert catalog().find_meta("nothing") is None
    # Not in the map of its meta, but known by the same name.
    assert catalog().find_meta("cpu-brain-development") == "brain"


@pytest.mark.behaviour("OPS-56")
def test_alias_that_several_builds_share_stands_in_for_a_meta() -> None:
    assert catalog(ALIASED).find_meta("cuda-voice") == "voice"
    assert catalog(ALIASED).find_meta("metal-tune") is None


def test_version_is_exact_and_the_newest_release_is_taken_without_one() -> None:
    assert catalog().resolve("ear", "default").version == "1.10.0"
    assert catalog().resolve("ear", "default", version="2.0.0rc1").source.requirements == ("ear==2.0.0rc1",)
    assert catalog().resolve("ear", "default", version="1.9.0").manifest.launcher == "ear"
    for unknown in ("1.9", "3", "v1.9.0"):
        with pytest.raises(Unprocessable) as caught:
            catalog().resolve("ear", "default", version=unknown)
        assert caught.value.slug == "unknown_version"
        assert caught.value.details["versions"] == ["2.0.0rc1", "1.10.0", "1.9.0"]


def test_newest_is_taken_when_there_is_no_release_yet() -> None:
    source = "source: {kind: bundled, uri: a}"
    text = f"- {{name: a, versions: [{{version: 1.0a1, {source}}}, {{version: 1.0b1, {source}}}]}}"
    assert catalog(text).resolve("a", "default").version == "1.0b1"


def test_preferring_development_changes_what_a_meta_gives_and_nothing_else() -> None:
    eager = catalog(prefers_development=True)
    assert eager.resolve("brain", "default").name == "cpu-brain-development"
    assert eager.resolve("brain", "nvidia").name == "cuda12-brain"
    assert eager.resolve("cpu-brain", "default").name == "cpu-brain"
    assert catalog().resolve("brain", "default").name == "cpu-brain"


@pytest.mark.parametrize(
    ("uri", "name", "expected"),
    [
        ("oci://registry.example/a/b:c", "mine", (SourceKind.OCI, "registry.example/a/b:c", "mine")),
        ("https://files.example/a/engine-1.2.tar.gz?x=1", "", (SourceKind.URL, None, "engine-1.2")),
        ("/opt/engine", "", (SourceKind.DIRECTORY, "/opt/engine", "engine")),
        ("/opt/engine", "a/b", (SourceKind.DIRECTORY, "/opt/engine", "a__b")),
    ],
)
def test_build_from_outside_has_a_source_and_a_name(uri: str, name: str, expected: tuple[object, ...]) -> None:
    build = catalog().make_external_build(uri, name, "shared", "")
    kind, address, called = expected
    assert (build.source.kind, build.source.uri, build.name) == (kind, address or uri, called)
    assert (build.alias, build.gallery, build.version) == ("shared", "", "")


@pytest.mark.parametrize(
    ("uri", "name", "alias", "code"),
    [
        ("", "a", "", "bad_uri"),
        ("ftp://x/y", "a", "", "bad_uri"),
        ("registry.example/a:b", "", "", "name_required"),
        ("https://files.example/", "", "", "name_required"),
        ("https://files.example/..", "", "", "name_required"),
        ("/opt/x", "brain", "", "name_in_gallery"),
        ("/opt/x", "Corral@Brain", "", "name_in_gallery"),
        ("/opt/x", "x", "ear", "name_in_gallery"),
        ("/opt/x", "a b", "", "bad_backend_name"),
        ("/opt/x", "x", "a@b", "bad_backend_name"),
        ("/opt/x", "y" * 300, "", "bad_backend_name"),
    ],
)
def test_build_from_outside_that_makes_no_sense_is_refused(uri: str, name: str, alias: str, code: str) -> None:
    with pytest.raises((InvalidRequest, Conflict)) as caught:
        catalog().make_external_build(uri, name, alias, "")
    assert caught.value.slug == code


def test_digest_of_a_build_from_outside_is_checked_for_its_form() -> None:
    assert catalog().make_external_build("https://h.example/x.zip", "x", "", "A" * 64).source.sha256 == "a" * 64
    with pytest.raises(InvalidRequest):
        catalog().make_external_build("https://h.example/x.zip", "x", "", "abc")


def test_index_of_these_tests_has_no_wrong_entry() -> None:
    assert catalog(INDEX).states[0].warnings == ()
