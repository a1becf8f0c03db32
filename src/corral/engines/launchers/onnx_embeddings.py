"""Serves a sentence encoder in ONNX as OpenAI's embeddings: a folder with model.onnx and tokenizer.json.

Tokens are averaged where the model has not done so itself, and every vector has length 1. Texts are computed in batches
of similar length. A text that is too long for the model is refused: half of it would be the embedding of another text.
"""

from __future__ import annotations

import argparse
import base64
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from corral.engines.launchers._engine_server import ApiError, EngineServer, make_parser, serve

BODY_LIMIT_BYTES = 16 << 20
INPUTS_MAX = 2048


def main() -> int:
    parser = make_parser((__doc__ or "").splitlines()[0])
    parser.add_argument("--context-size", type=int, default=512, help="tokens of one text at most")
    parser.add_argument("--batch-size", type=int, default=32, help="texts that are computed at a time")
    options = parser.parse_args()
    try:
        import onnxruntime
        import tokenizers  # noqa: F401 - a check is to find what is missing
    except ImportError as error:
        print(f"error: the engine cannot be loaded: {error}", file=sys.stderr, flush=True)
        return 1
    if options.check:
        print(onnxruntime.__version__, flush=True)
        return 0
    load = partial(SentenceEncoder.load, options)
    serve(options, load, {"/v1/embeddings": serve_embeddings}, body_limit_bytes=BODY_LIMIT_BYTES)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceEncoder:
    """Computes embeddings with an ONNX model and its tokenizer, in batches of similar length."""

    session: Any
    tokenizer: Any
    context_size: int
    batch_size: int

    @classmethod
    def load(cls, options: argparse.Namespace) -> SentenceEncoder:
        import onnxruntime
        import tokenizers

        path = Path(options.model)
        folder = path if path.is_dir() else path.parent
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        limits = onnxruntime.SessionOptions()
        limits.intra_op_num_threads = options.threads
        limits.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            str(path / "model.onnx" if path.is_dir() else path), limits, providers=["CPUExecutionProvider"]
        )
        return cls(
            session=session, tokenizer=tokenizer, context_size=options.context_size, batch_size=options.batch_size
        )

    def encode(self, inputs: list[str] | list[list[int]]) -> tuple[list[Any], int]:
        """Return a vector for each input, and the tokens of all."""
        tokens = [self.tokenizer.encode(item).ids if isinstance(item, str) else item for item in inputs]
        for index, ids in enumerate(tokens):
            if len(ids) > self.context_size:
                problem = f"input {index} has {len(ids)} tokens; the model takes {self.context_size}."
                raise ApiError(400, problem, "context_length_exceeded")
            if max(ids, default=0) >= self.tokenizer.get_vocab_size():
                raise ApiError(400, f"input {index} has a token that the model does not know.")
        order = sorted(range(len(tokens)), key=lambda index: len(tokens[index]))
        vectors: list[Any] = [None] * len(tokens)
        for start in range(0, len(order), self.batch_size):
            indexes = order[start : start + self.batch_size]
            for index, vector in zip(indexes, self._encode_batch([tokens[index] for index in indexes]), strict=True):
                vectors[index] = vector
        return vectors, sum(map(len, tokens))

    def _encode_batch(self, tokens: list[list[int]]) -> Any:
        import numpy as np

        width = max(map(len, tokens))
        ids = np.zeros((len(tokens), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {given.name: known[given.name] for given in self.session.get_inputs()}
        output = self.session.run(None, feed)[0]
        if output.ndim == 3:
            weights = mask[..., None].astype(output.dtype)
            output = (output * weights).sum(axis=1) / weights.sum(axis=1)
        return (output / np.maximum(np.linalg.norm(output, axis=1, keepdims=True), 1e-12)).astype("<f4")


async def serve_embeddings(server: EngineServer, request: web.Request) -> web.Response:
    try:
        body = await request.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ApiError(400, "The body is not a JSON object.")
    inputs = parse_inputs(body.get("input"))
    form = body.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise ApiError(400, "encoding_format is neither float nor base64.")
    vectors, tokens = await server.run_call(SentenceEncoder.encode, inputs)
    dimensions, width = body.get("dimensions"), len(vectors[0])
    if dimensions is not None and dimensions != width:
        raise ApiError(400, f"This model has {width} dimensions and cannot give {dimensions}.")
    data = [
        {"object": "embedding", "index": index, "embedding": format_vector(vector, form)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return web.json_response({"object": "list", "model": server.name, "data": data, "usage": usage})


def parse_inputs(value: object) -> list[str] | list[list[int]]:
    """Return a text, tokens, or a list of either as a list."""
    if isinstance(value, str) or (isinstance(value, list) and value and all(is_token(item) for item in value)):
        value = [value]
    if not isinstance(value, list) or not 0 < len(value) <= INPUTS_MAX:
        raise ApiError(400, f"input is neither a text nor a list of 1 to {INPUTS_MAX} of them.")
    if all(isinstance(item, str) and item for item in value):
        return value
    if all(isinstance(item, list) and item and all(is_token(token) for token in item) for item in value):
        return value
    raise ApiError(400, "input has something that is neither a text nor a list of tokens, or is empty.")


def is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def format_vector(vector: Any, form: str) -> Any:
    return vector.tolist() if form == "float" else base64.b64encode(vector.tobytes()).decode()


if __name__ == "__main__":
    sys.exit(main())
