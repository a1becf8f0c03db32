"""Names for the shell's completion: asked of the cluster when it answers at once, otherwise none.

Completion must never print, hang or fail: every trouble means "no suggestions".
"""

from __future__ import annotations

from typing import Any

from corral.domain.errors import CorralError

# A person waits at the prompt.
QUICK_S = 0.8
LIMIT_BYTES = 4 * 1024 * 1024


def node_names(incomplete: str) -> list[str]:
    return _beginning(incomplete, "/api/nodes", lambda nodes: [node["name"] for node in nodes])


def backend_names(incomplete: str) -> list[str]:
    """Everything that a gallery has."""
    return _beginning(incomplete, "/backends/known", lambda known: [backend["name"] for backend in known])


def installed_names(incomplete: str) -> list[str]:
    return _beginning(incomplete, "/backends", lambda found: [backend["Name"] for backend in found])


def model_names(incomplete: str) -> list[str]:
    return _beginning(incomplete, "/api/models/configs", lambda models: [model["name"] for model in models])


def entry_names(incomplete: str) -> list[str]:
    """Everything that a gallery of models has."""
    return _beginning(incomplete, "/models/available", lambda entries: [entry["name"] for entry in entries])


def rule_names(incomplete: str) -> list[str]:
    return _beginning(incomplete, "/api/rules", lambda rules: [rule["model"] for rule in rules])


def operation_ids(incomplete: str) -> list[str]:
    """Those of the live list."""
    return _beginning(incomplete, "/api/operations", lambda answer: [one["id"] for one in answer["operations"]])


def _beginning(incomplete: str, path: str, names: Any) -> list[str]:
    # Late: this module is loaded with every command, and asked by few.
    import http.client

    from corral.cli.target import find_target

    try:
        target = find_target({})
        found = [str(name) for name in names(_ask(target.url, target.key or "", path))]
    except (CorralError, OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return []
    return sorted(name for name in found if name.startswith(incomplete))


def _ask(url: str, key: str, path: str) -> Any:
    import http.client
    import json
    from urllib.parse import urlsplit

    address = urlsplit(url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.netloc, timeout=QUICK_S)
    try:
        connection.request("GET", f"{address.path}{path}", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return json.loads(answer.read(LIMIT_BYTES)) if answer.status == 200 else []
    finally:
        connection.close()
