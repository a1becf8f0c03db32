"""Stands in for `corral serve`: ready once PostgreSQL accepts connections, and knows the nodes that said hello."""

import json
import os
import signal
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

KEY = Path(os.environ["CORRAL_ADMIN_KEY_FILE"]).read_text().strip()
DATABASE_FILE = Path(os.environ["CORRAL_DATABASE_URL_FILE"])
TOKEN = Path(os.environ["CORRAL_LOCAL_JOIN_TOKEN_FILE"]).read_text().strip()
NODES: list[dict[str, str]] = []


def accepts(url: str) -> bool:
    place = urlsplit(url)
    try:
        with socket.create_connection((place.hostname, place.port), timeout=1):
            return True
    except OSError:
        return False


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/readyz":
            up = accepts(DATABASE_FILE.read_text().strip()) and accepts(os.environ["CORRAL_NATS_URL"])
            self.answer(200 if up else 503, {})
        elif self.headers.get("Authorization") != f"Bearer {KEY}":
            self.answer(401, {})
        elif self.path == "/env":
            self.answer(200, dict(os.environ))
        else:
            self.answer(200, {"frontends": [{"id": "one", "pid": os.getpid()}], "nodes": NODES})

    def do_POST(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401, {})
            return
        NODES.append({"id": "n1", "name": "here", "status": "healthy"})
        self.answer(200, {})

    def answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
ThreadingHTTPServer.daemon_threads = True
ThreadingHTTPServer((os.environ["CORRAL_HOST"], int(os.environ["CORRAL_PORT"])), Handler).serve_forever()
