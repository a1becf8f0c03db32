"""Galleries of models: what is read, what comes with Corral, which variant a fleet gets, and the page of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from corral.backends.catalog import BackendCatalog
from corral.backends.refresh import GalleryKind, GalleryRefresher
from corral.domain.backend import Gallery
from corral.domain.errors import InvalidRequest, NotFound, Unprocessable
from corral.domain.model import Model
from corral.engines import list_gallery_files
from corral.models.gallery import (
    GalleryModelRequest,
    ModelGallery,
    ModelGalleryIndex,
    ModelListingQuery,
    build_listing,
    list_target_nodes,
    parse_models,
    read_built_in,
    read_models,
)
from corral.policy.models.configuration import compute_run_hash, from_mapping
from corral.store import galleries as gallery_store
from corral.store.database import Database
from tests.backends.sites import HandClock, fetcher, site
from tests.models.scene import config
from tests.support.models import MINILM, SMOLLM2, VOICE, WHISPER
from tests.unit.policy.builders import THEN, a_node

GIB = 1024**3
INDEX = """
- name: big
  tags: [chat, big]
  size: 40GB
  config: {backend: llama-cpp}
  variants: [{model: small}, {model: gpu}, {model: nowhere}]
- name: small
  tags: [chat]
  size: 2GB
  config: {backend: llama-cpp, options: {context_size: 1}}
- name: gpu
  tags: [chat]
  size: 10GB
  config: {backend: vllm}
- name: words
  license: MIT
  config: {backend: onnx-embeddings, serves: [embeddings]}
"""
_NOWHERE: Any = None


def gallery(text: str = INDEX) -> ModelGallery:
    return ModelGallery(_NOWHERE, built_in=parse_models(text, "corral"))


def catalog() -> BackendCatalog:
    return BackendCatalog(_NOWHERE)


def test_built_in_models_are_complete_and_have_checksums():
    index = read_built_in()
    assert index.warnings == ()
    entries = {entry.name: entry for entry in index.entries}
    expected = {"smollm2-135m": SMOLLM2, "all-minilm-l6-v2": MINILM, "whisper-base": WHISPER, "piper-en-us-joe": VOICE}
    for name, known in expected.items():
        files = from_mapping(entries[name].config, name=name).files
        assert sorted(file.sha256 for file in files) == sorted(file.sha256 for file in known.files.values())
        packages = {part.uri.removeprefix("wheel://").partition("/")[0] for file in files for part in file.parts}
        assert packages <= set(known.packages)
    backends = {entry["name"]: entry for path in list_gallery_files() for entry in yaml.safe_load(path.read_text())}
    for entry in index.entries:
        made_of = from_mapping(entry.config, name=entry.name)
        assert made_of.backend in backends
        assert all(file.sha256 for file in made_of.files)
        assert entry.license
        assert entry.size_bytes is not None
    assert from_mapping(entries["smollm2-135m"].config, name="x").defaults["system"]


def test_invalid_gallery_entry_is_left_out_with_a_warning():
    index = parse_models(
        """
- {name: good, config: {backend: fake}}
- {name: no-backend, config: {}}
- {name: typo, config: {backend: fake, optoins: {}}}
- {name: typo2, confg: {backend: fake}, config: {backend: fake}}
- {name: good, config: {backend: fake}}
- {name: base-elsewhere, url: "https://files.example/base.yaml"}
- [1]
""",
        "g",
    )
    assert [entry.id for entry in index.entries] == ["g@good"]
    assert len(index.warnings) == 6
    assert any("no-backend" in warning and "backend is missing" in warning for warning in index.warnings)
    with pytest.raises(InvalidRequest):
        parse_models("<html>", "g")


def test_gallery_entry_of_localai_becomes_a_configuration():
    (entry,) = parse_models(
        """
- name: old
  url: "https://files.example/base.yaml"
  files: [{filename: m.gguf, sha256: %s, uri: "https://files.example/m.gguf"}]
  overrides:
    backend: llama-cpp
    context_size: 4096
    parameters: {model: m.gguf, temperature: 0.3}
    known_usecases: [chat, completion, video]
    f16: true
"""
        % ("ab" * 32),
        "g",
    ).entries
    made_of = from_mapping(entry.config, name="old")
    assert (made_of.entry, made_of.files[0].path, made_of.serves) == ("m.gguf", "m.gguf", ("chat", "completions"))
    assert (made_of.options, made_of.defaults) == ({"context_size": "4096"}, {"temperature": 0.3})


CPU = a_node(name="cpu", total_ram=8 * GIB, capability="default")
CARD = a_node(name="card", total_ram=64 * GIB, total_vram=24 * GIB, capability="nvidia-cuda-13", gpu_vendor="nvidia")


@pytest.mark.behaviour("OPS-100")
@pytest.mark.parametrize(("nodes", "chosen"), [([CPU], "small"), ([], "big")])
def test_variant_is_chosen_for_the_nodes_that_may_get_the_model(nodes: list[Any], chosen: str):
    config_, how = gallery().configure(GalleryModelRequest(entry="big"), nodes, catalog())
    assert (config_.name, config_.gallery, config_.variant) == ("big", "corral@big", chosen)
    assert not config_.is_variant_pinned
    assert how.variant.model == chosen


@pytest.mark.behaviour("OPS-100")
def test_variant_that_is_named_is_kept_and_one_that_does_not_exist_fails():
    configured, _ = gallery().configure(GalleryModelRequest(entry="big", variant="gpu", name="mine"), [CPU], catalog())
    assert (configured.name, configured.variant, configured.is_variant_pinned, configured.backend) == (
        "mine",
        "gpu",
        True,
        "vllm",
    )
    with pytest.raises(Unprocessable) as caught:
        gallery().configure(GalleryModelRequest(entry="big", variant="smal"), [CPU], catalog())
    assert (caught.value.slug, caught.value.hint) == ("unknown_variant", "Did you mean small?")


@pytest.mark.behaviour("OPS-100")
def test_recorded_variant_that_has_vanished_is_replaced_with_a_warning():
    kept, how = gallery().configure(GalleryModelRequest(entry="big", pinned="small"), [CARD], catalog())
    assert (kept.variant, how.warnings) == ("small", ())
    fresh, how = gallery().configure(GalleryModelRequest(entry="big", pinned="nowhere"), [CPU], catalog())
    assert fresh.variant == "small"
    assert "nowhere" in how.warnings[0]


def test_overrides_are_laid_over_the_entry():
    request = GalleryModelRequest(
        entry="corral@small", name="s", overrides={"options": {"parallel": 2}, "defaults": {"temperature": 0}}
    )
    made_of, _ = gallery().configure(request, [], catalog())
    assert made_of.options == {"context_size": "1", "parallel": "2"}
    assert (made_of.name, made_of.gallery, made_of.variant) == ("s", "corral@small", "")
    with pytest.raises(NotFound) as caught:
        gallery().find("smal")
    assert caught.value.hint == "Did you mean small?"


def test_gallery_counts_only_schedulable_nodes_as_targets():
    away = a_node(name="away", drained_at=THEN)
    assert list_target_nodes([CPU, away], {}) == [CPU]
    # All of them are away for now: the choice is made for them all the same.
    assert list_target_nodes([away], {}) == [away]
    assert list_target_nodes([a_node(name="new", approved_at=None)], {}) == []
    assert list_target_nodes([CPU], {"zone": "b"}) == []


def model(name: str, **changes: Any) -> Model:
    made_of = config(name, **changes)
    return Model(config=made_of, revision=1, run_hash=compute_run_hash(made_of), created_at=THEN, updated_at=THEN)


def test_page_filters_first_then_folds_variants_then_cuts():
    entries = gallery().list_entries()

    def page(**query: Any) -> list[str]:
        return [row.entry.name for row in build_listing(entries, [], ModelListingQuery(**query), lambda _: ()).items]

    assert page() == ["big", "gpu", "small", "words"]
    assert page(folds_variants=True) == ["big", "words"]
    # The base does not match: its variants are not hidden behind it.
    assert page(term="gpu", folds_variants=True) == ["gpu"]
    assert page(tag="chat", folds_variants=True, items=1) == ["big"]
    assert page(items=2, page=2) == ["small", "words"]
    assert page(sort="size") == ["small", "gpu", "big", "words"]
    assert page(is_descending=True)[0] == "words"
    assert page(backend="vllm") == ["gpu"]
    assert page(capability="embeddings") == ["words"]
    for wrong in ({"capability": "flying"}, {"page": 0}, {"sort": "colour"}, {"items": 0}):
        with pytest.raises(InvalidRequest):
            page(**wrong)


def test_page_says_which_models_were_made_of_an_entry():
    mine = [model("mine", gallery="corral@big", variant="small"), model("plain")]
    rows = {
        row.entry.name: row.models
        for row in build_listing(gallery().list_entries(), mine, ModelListingQuery(), lambda _: ()).items
    }
    assert rows == {"big": ("mine",), "small": ("mine",), "gpu": (), "words": ()}


async def test_gallery_of_models_is_fetched_stored_and_read_beside_one_of_backends_with_the_same_name(
    database: Database,
):
    async with site() as place, fetcher() as http:
        place.text("/index", INDEX)
        mine = Gallery(name="mine", url=f"{place.url}/index")
        refresher = GalleryRefresher(
            database, http, HandClock(), [mine], kind=GalleryKind(name="models", read=read_models)
        )
        (done,) = await refresher.tick()
        assert (done.problem, done.is_changed) == ("", True)
        # The backends' refresher forgets what is not its own gallery, and leaves ours alone.
        await GalleryRefresher(database, http, HandClock(), []).tick()
    found = ModelGallery(database, [mine], built_in=ModelGalleryIndex(entries=()))
    await found.load()
    assert [entry.id for entry in found.list_entries()] == ["mine@big", "mine@small", "mine@gpu", "mine@words"]
    assert [state.entries for state in found.states] == [0, 4]
    other = BackendCatalog(database, [mine])
    await other.load()
    assert other.get("mine@big") is None


async def test_gallery_of_a_fleet_file_is_used_beside_those_of_the_settings(database: Database):
    async with site() as place, fetcher() as http:
        place.text("/index", INDEX)
        async with database.transaction() as tx:
            await gallery_store.put_gallery(tx, "models", Gallery(name="filed", url=f"{place.url}/index"))
        refresher = GalleryRefresher(database, http, HandClock(), [], kind=GalleryKind(name="models", read=read_models))
        await refresher.tick()
        found = ModelGallery(database, built_in=ModelGalleryIndex(entries=()))
        await found.load()
        assert len(found.list_entries()) == 4
        async with database.transaction() as tx:
            await gallery_store.delete_gallery(tx, "models", "filed")
        await refresher.tick()
        await found.load()
        assert found.list_entries() == ()
