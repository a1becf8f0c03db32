"""Models of Ollama registries: one blob with the weights, and small ones with its template, prompt and parameters."""

from __future__ import annotations

import re

from corral.domain.model import FilePart
from corral.ports.origin import MODEL, Found
from corral.transfer.faults import TransferFailed
from corral.transfer.layers import Layer, layers_of
from corral.transfer.origins.oci import Blobs, found_blob
from corral.transfer.origins.origin import bad_address
from corral.transfer.registry import parse_reference

# Where names without a host lead, as they do in Ollama itself.
DEFAULT_HOST = "registry.ollama.ai"
_DEFAULT_OWNER = "library"
_TYPE = "application/vnd.ollama.image."
# What the layers are in a folder. Others (licenses, messages) are not needed to run a model.
_FILES = {
    MODEL: "model.gguf",
    "projector": "projector.gguf",
    "adapter": "adapter.gguf",
    "template": "template.txt",
    "system": "system.txt",
    "params": "params.json",
}
_URI = re.compile(
    r"ollama(?P<plain>\+http)?://(?:(?P<host>localhost|[^/]*[.:][^/]*)/)?"
    r"(?:(?P<owner>[\w.-]+)/)?(?P<name>[\w.-]+)(?::(?P<tag>[\w.-]+))?"
)


class OllamaOrigin(Blobs):
    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        found = _URI.fullmatch(part.uri)
        if found is None:
            raise bad_address(part.uri, "ollama://name:tag")
        scheme = "oci+http" if found["plain"] else "oci"
        repository = f"{found['owner'] or _DEFAULT_OWNER}/{found['name']}".lower()
        reference = parse_reference(
            f"{scheme}://{found['host'] or DEFAULT_HOST}/{repository}:{found['tag'] or 'latest'}"
        )
        _, document = await self.registry(reference).manifest(reference.tag)
        kinds = [(_kind_of(layer), layer) for layer in layers_of(document)]
        names: dict[str, Found] = {}
        for kind, layer in kinds:
            if kind in _FILES:
                name = _FILES[kind] if _FILES[kind] not in names else f"{len(names)}-{_FILES[kind]}"
                names[name] = found_blob(name, reference, layer, kind)
        if not any(one.kind == MODEL for one in names.values()):
            raise TransferFailed(f"{part.uri} has no file with weights in it.", code="unsupported")
        return tuple(names[name] for name in sorted(names))


def _kind_of(layer: Layer) -> str:
    return layer.media_type.removeprefix(_TYPE) if layer.media_type.startswith(_TYPE) else ""
