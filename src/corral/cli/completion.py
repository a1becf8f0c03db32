"""Returns names for the completion of shells, from the cluster if it answers at once, otherwise none.

Completion must never print, hang or fail: every error means "no suggestions".
"""

from __future__ import annotations

from typing import Any

from corral.domain.errors import CorralError

# Short, because a person waits at the prompt.
TIMEOUT_S = 0.8
LIMIT_BYTES = 4 * 1024 * 1024


def complete_node_names(incomplete: str) -> list[str]:
    return _complete(incomplete, "/api/nodes", lambda nodes: [node["name"] for node in nodes])


def complete_backend_names(incomplete: str) -> list[str]:
    """Return the names of all backends in the galleries."""
    return _complete(incomplete, "/backends/known", lambda known: [backend["name"] for backend in known])


def complete_installed_names(incomplete: str) -> list[str]:
    return _complete(incomplete, "/backends", lambda found: [backend["Name"] for backend in found])


def complete_model_names(incomplete: str) -> list[str]:
    return _complete(incomplete, "/api/models/configs", lambda models: [model["name"] for model in models])


def complete_entry_names(incomplete: str) -> list[str]:
    """Return the names of all entries in the galleries of models."""
    return _complete(incomplete, "/models/available", lambda entries: [entry["name"] for entry in entries])


def complete_rule_names(incomplete: str) -> list[str]:
    return _complete(incomplete, "/api/rules", lambda rules: [rule["model"] for rule in rules])


def complete_secret_names(incomplete: str) -> list[str]:
    """Return the names of the own secrets."""
    return _complete(incomplete, "/api/secrets", lambda secrets: [secret["name"] for secret in secrets])


def complete_mcp_server_names(incomplete: str) -> list[str]:
    """Return the names of the declared MCP servers."""
    return _complete(incomplete, "/api/mcp/servers", lambda found: [server["name"] for server in found["servers"]])


def complete_operation_ids(incomplete: str) -> list[str]:
    """Return the ids of the operations in the live list."""
    return _complete(incomplete, "/api/operations", lambda answer: [one["id"] for one in answer["operations"]])


def complete_run_ids(incomplete: str) -> list[str]:
    """Return the ids of the caller's runs that have not ended."""
    return _complete(incomplete, "/api/runs?state=open", lambda answer: [one["id"] for one in answer["runs"]])


def complete_agent_names(incomplete: str) -> list[str]:
    """Return the names of the agents that the caller may use."""
    return _complete(incomplete, "/api/agents", lambda answer: list(answer["agents"]))


def complete_task_names(incomplete: str) -> list[str]:
    return _complete(incomplete, "/api/agent/tasks", lambda tasks: [task["name"] for task in tasks])


def complete_skill_names(incomplete: str) -> list[str]:
    return _complete(incomplete, "/api/agents/skills", lambda skills: [skill["name"] for skill in skills])


def complete_job_ids(incomplete: str) -> list[str]:
    """Return the ids of the caller's newest jobs."""
    return _complete(incomplete, "/api/agent/jobs", lambda jobs: [job["id"] for job in jobs])


def _complete(incomplete: str, path: str, pick_names: Any) -> list[str]:
    # Imported here, because this module is loaded with every command and used by few.
    import http.client

    from corral.cli.target import find_target

    try:
        target = find_target({})
        found = [str(name) for name in pick_names(_fetch_json(target.url, target.key or "", path))]
    except (CorralError, OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return []
    return sorted(name for name in found if name.startswith(incomplete))


def _fetch_json(url: str, key: str, path: str) -> Any:
    import http.client
    import json
    from urllib.parse import urlsplit

    address = urlsplit(url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.netloc, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"{address.path}{path}", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return json.loads(answer.read(LIMIT_BYTES)) if answer.status == 200 else []
    finally:
        connection.close()
