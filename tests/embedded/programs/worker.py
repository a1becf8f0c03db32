"""Stands in for `corral worker`: greets the frontend until it answers, then says that it is ready."""

import os
import signal
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

TOKEN = Path(os.environ["CORRAL_TOKEN_FILE"]).read_text().strip()
HELLO = urllib.request.Request(
    os.environ["CORRAL_JOIN"] + "/hello", data=b"{}", headers={"Authorization": f"Bearer {TOKEN}"}
)

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
(Path(os.environ["CORRAL_WORKER_HOME"]) / "environment").write_text("\n".join(sorted(os.environ)))
while True:
    try:
        urllib.request.urlopen(HELLO, timeout=2).close()
        break
    except (urllib.error.URLError, OSError):
        time.sleep(0.02)


class ReadyHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


HTTPServer((os.environ["CORRAL_HTTP_HOST"], int(os.environ["CORRAL_HTTP_PORT"])), ReadyHandler).serve_forever()
