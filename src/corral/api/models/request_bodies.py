"""Parses requests about models: a body in YAML or JSON, and the revision that the client expects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import Annotated, Any
from urllib.parse import urlsplit

import structlog
from fastapi import Path, Request

from corral.api.deps import ApiDeps
from corral.backends.sources import parse_image
from corral.domain.backend import Manifest
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.model import Model, ModelConfig
from corral.models.document_parser import IN_PLACE_BYTES_MAX, parse_json_document, parse_yaml_document
from corral.policy.addresses import holds_secret, is_private_address
from corral.policy.models.tool_loop import list_loop_warnings
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store.database import Transaction

log = structlog.get_logger(__name__)

NAME_MAX = 255
NameIn = Annotated[str, Path(max_length=NAME_MAX, pattern=r"^[^\x00-\x1f\x7f]+$", description="A name or an alias.")]
EntryIn = Annotated[str, Path(max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$", description="A name or gallery@name.")]


async def parse_document(request: Request, deps: ApiDeps) -> Any:
    """Return the body as plain values: JSON if the content type says so, else YAML, of which JSON is a subset."""
    body = await request.body()
    parse = parse_json_document if "json" in request.headers.get("content-type", "") else parse_yaml_document
    document, _ = await deps.compute.run(parse, body) if len(body) > IN_PLACE_BYTES_MAX else parse(body)
    return document


def check_sources(deps: ApiDeps, config: ModelConfig) -> None:
    """Raise if an address in a configuration leads into a private network or holds a secret: configurations are shown
    and exported.

    Host names are resolved later, when the files are fetched.
    """
    for part in (part for file in config.files for part in file.parts):
        if holds_secret(part.uri, allows_signed=True):
            raise InvalidRequest(
                f"The address of a file of {config.name} holds a user name, a password or a token.",
                hint="Take it out: everybody who may see the model could read it. Upload the file into the library "
                "instead, give a signed URL that expires, or set `hub_token` or `registry_credentials`.",
                code="secret_in_address",
            )
    if deps.allows_private_sources:
        return
    for file in config.files:
        for part in file.parts:
            host = _find_host(part.uri)
            if host is not None and is_private_address(host):
                raise Unprocessable(
                    f"A file of {config.name} comes from a private network or from this machine itself.",
                    code="private_address",
                    hint="Put the file behind a public address, or allow such sources in the settings.",
                )


def _find_host(uri: str) -> str | None:
    if uri.lower().startswith(("http://", "https://")):
        try:
            return urlsplit(uri).hostname or ""
        except ValueError as error:
            raise InvalidRequest("The address of a file is not valid.", code="bad_model") from error
    image = parse_image(uri) if uri.startswith(("oci://", "oci+http://")) else None
    return None if image is None else urlsplit(f"//{image['registry']}").hostname


def check_adapter_engine(deps: ApiDeps, model: Model) -> None:
    """Raise `Unprocessable` if a model is or has adapters, and its engine is known to take none."""
    if model.config.base or model.adapters:
        require_adapter_engine(deps, model.config.backend)


def require_adapter_engine(deps: ApiDeps, backend: str) -> None:
    manifest = deps.catalog.find_manifest(backend)
    if manifest is not None and not manifest.adapters.select:
        raise Unprocessable(
            f"The engine {backend} takes no LoRA adapters.",
            hint="llama-cpp and vllm do. Or merge the adapter into the weights of its base.",
            code="adapters_not_supported",
        )


def list_warnings(deps: ApiDeps, config: ModelConfig) -> list[str]:
    """Return warnings about problems of the first load that can be predicted now, and about settings without effect."""
    return [*_list_load_warnings(deps, config), *list_loop_warnings(config.tool_loop)]


def _list_load_warnings(deps: ApiDeps, config: ModelConfig) -> list[str]:
    if deps.catalog.get(config.backend) is None:
        return [f"No gallery has a backend {config.backend!r}: it has to be installed before the model is loaded."]
    manifest = deps.catalog.find_manifest(config.backend)
    if manifest is None:
        return []
    unknown = [name for name in config.options if name not in manifest.options]
    return [_describe_unknown_option(config.backend, name, manifest) for name in unknown]


def _describe_unknown_option(backend: str, name: str, manifest: Manifest) -> str:
    near = get_close_matches(name, list(manifest.options), n=1, cutoff=0.6)
    meant = f" Did you mean {near[0]}?" if near else f" It has: {', '.join(sorted(manifest.options))}."
    return f"{backend} has no option {name[:60]!r}.{meant}"


def list_served_calls(deps: ApiDeps, backend: str) -> list[str]:
    """Return the calls that a backend supports; empty if the backend is unknown."""
    return list(deps.catalog.list_calls(backend))


async def refresh_served_models(deps: ApiDeps, names: Collection[str]) -> None:
    """Reload these models from the registry, so that this frontend serves the change before it responds. The other
    frontends follow with the event, a moment later."""
    outcome = await attempt(lambda: deps.gateway.router.snapshot.refresh(names))
    if isinstance(outcome, AttemptFailure):
        # The change is committed; the feed will apply it here later.
        log.warning("a change of models is served a moment later", models=sorted(names), problem=outcome.sentence)


@asynccontextmanager
async def open_model_change(deps: ApiDeps, *names: str) -> AsyncIterator[Transaction]:
    """Open a transaction that changes models; when it has committed, this frontend serves them as changed."""
    async with deps.database.transaction() as tx:
        yield tx
    await refresh_served_models(deps, names)
