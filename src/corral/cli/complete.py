"""Names of nodes for the shell's completion: asked of the cluster when it answers at once, otherwise none.

Completion must never print, hang or fail: every trouble means "no suggestions".
"""

from __future__ import annotations

from corral.domain.errors import CorralError

# A person waits at the prompt.
QUICK_S = 0.8
LIMIT_BYTES = 4 * 1024 * 1024


def node_names(incomplete: str) -> list[str]:
    # Late: this module is loaded with every command, and asked by few.
    import http.client

    from corral.cli.target import find_target

    try:
        target = find_target({})
        names = _ask(target.url, target.key or "")
    except (CorralError, OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def _ask(url: str, key: str) -> list[str]:
    import http.client
    import json
    from urllib.parse import urlsplit

    address = urlsplit(url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.netloc, timeout=QUICK_S)
    try:
        connection.request("GET", f"{address.path}/api/nodes", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        if answer.status != 200:
            return []
        return [str(node["name"]) for node in json.loads(answer.read(LIMIT_BYTES))]
    finally:
        connection.close()
