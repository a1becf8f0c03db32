"""A git repository of a test behind git's own HTTP server, on a free port of the loopback."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_WHO = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")


def skill_text(name: str, description: str = "What it does.", body: str = "Do it.") -> str:
    """Return the text of a `SKILL.md`."""
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"


@dataclass
class GitRepository:
    """A working tree whose commits the server serves at once."""

    folder: Path
    url: str = ""

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *_WHO, *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, path: str, content: str | bytes) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self) -> str:
        """Commit everything and return the commit."""
        self.git("add", "--all")
        self.git("commit", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "HEAD")


class _Handler(BaseHTTPRequestHandler):
    """Passes a request to `git http-backend`, as a web server does. With `password`, only if the request has it."""

    root: Path
    password = ""

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("content-length", 0))))

    def _answer(self, body: bytes) -> None:
        expected = f"Basic {base64.b64encode(self.password.encode()).decode()}"
        if self.password and self.headers.get("authorization") != expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        variables = {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "PATH": os.environ["PATH"],
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=variables, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        self.send_response(int(lines.pop("Status", "200").split()[0]))
        for name, value in lines.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        return


@contextmanager
def git_repository(folder: Path, *, password: str = "") -> Iterator[GitRepository]:
    """Serve a new repository in a folder at `/skills`. `password`: a user and a password as `user:password`, which
    every request has to bring."""
    tree = folder / "skills"
    tree.mkdir()
    repository = GitRepository(tree)
    repository.git("init", "--initial-branch", "main")
    handler = type("Handler", (_Handler,), {"root": folder, "password": password})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    repository.url = f"http://127.0.0.1:{server.server_address[1]}/skills"
    try:
        yield repository
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
