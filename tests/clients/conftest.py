"""Real engines on one stage, each started by the first test that needs it and kept for the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.prompts import TRANSLATED
from tests.clients.stage import Stage, smollm2_with_tools, stage
from tests.engines.engine_processes import LLAMA, Engine, running
from tests.support.models import MINILM, VOICE, WHISPER
from tests.support.tiny_gguf import write_tiny_gguf

Paths = pytest.TempPathFactory


@pytest.fixture(scope="session")
def scene(postgres: str) -> Iterator[Stage]:
    with stage(postgres) as made:
        yield made


@pytest.fixture(scope="session")
def smol(scene: Stage, tmp_path_factory: Paths) -> Iterator[Engine]:
    """A chat model of 135 million parameters on llama.cpp, as `smollm2-135m` and `gpt-4`."""
    folder = tmp_path_factory.mktemp("smol")
    with running(
        LLAMA, folder, model=smollm2_with_tools(), called="smollm2-135m", parallel=4, context_size=2048
    ) as engine:
        scene.serve("smollm2-135m", engine, "llama-cpp", aliases=("gpt-4",), serves=["chat", "completions"])
        # The same engine as if it spoke nothing but chats.
        scene.serve(TRANSLATED, engine, "of-somebody-else")
        yield engine


@pytest.fixture(scope="session")
def encoder(scene: Stage, tmp_path_factory: Paths) -> Iterator[Engine]:
    with running("onnx-embeddings", tmp_path_factory.mktemp("encoder"), model=MINILM.ensure_folder()) as engine:
        scene.serve("minilm", engine, "onnx-embeddings", serves=["embeddings"])
        yield engine


@pytest.fixture(scope="session")
def reranker(scene: Stage, tmp_path_factory: Paths) -> Iterator[Engine]:
    """llama.cpp as a reranker, on a model whose weights are noise."""
    folder = tmp_path_factory.mktemp("reranker")
    with running(LLAMA, folder, model=write_tiny_gguf(folder / "tiny.gguf"), rerank=True) as engine:
        scene.serve("reranker", engine, "llama-cpp", serves=["rerank"])
        yield engine


@pytest.fixture(scope="session")
def piper(scene: Stage, tmp_path_factory: Paths) -> Iterator[Engine]:
    with running("piper", tmp_path_factory.mktemp("piper"), model=VOICE.ensure_folder()) as engine:
        scene.serve("piper-en-us-joe", engine, "piper", aliases=("piper-joe",), serves=["speech"])
        yield engine


@pytest.fixture(scope="session")
def whisper(scene: Stage, tmp_path_factory: Paths) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("whisper")
    with running("faster-whisper", folder, model=WHISPER.ensure_folder(), compute_type="int8", beam_size=1) as engine:
        scene.serve("whisper-base", engine, "faster-whisper", aliases=("whisper-1",), serves=["transcriptions"])
        yield engine
