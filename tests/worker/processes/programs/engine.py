"""Stands in for an engine: listens, becomes ready, and misbehaves on demand. Needs nothing but Python."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

# A child that lives until somebody ends it, and does not mind SIGTERM.
CHILD = "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN); threading.Event().wait()"

flags = argparse.ArgumentParser()
flags.add_argument("--host", default="127.0.0.1")
flags.add_argument("--port", type=int, required=True)
flags.add_argument("--say", type=int, default=0, help="lines on standard error at the start")
flags.add_argument("--fail", type=int, help="end with this code instead of listening")
flags.add_argument("--last-words", default="", help="one more line on standard error at the start")
flags.add_argument("--never-ready", action="store_true")
flags.add_argument("--ready-when", help="ready once this file exists")
flags.add_argument("--ignore-term", action="store_true")
flags.add_argument("--fork", action="store_true", help="start a child in the same session")
flags.add_argument("--fork-away", action="store_true", help="start a child in a session of its own")
flags.add_argument("--fork-clean", action="store_true", help="start a child that inherits no variables")
flags.add_argument("--context", default="")
flags.add_argument("--dawdle-s", type=float, default=0.0, help="listen only after so long")
wanted = flags.parse_args()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        place = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(place.query).items()}
        if place.path == "/health":
            is_ready = not wanted.never_ready and (not wanted.ready_when or Path(wanted.ready_when).exists())
            self.answer(200 if is_ready else 503, {})
        elif place.path == "/crash":
            print("about to crash", file=sys.stderr, flush=True)
            os._exit(int(asked.get("code", "7")))
        elif place.path == "/print":
            for number in range(int(asked["lines"])):
                print(f"line {number} " + "x" * int(asked.get("width", "0")))
            sys.stdout.flush()
            self.answer(200, {})
        else:
            said = {
                "pid": os.getpid(),
                "environment": dict(os.environ),
                "arguments": sys.argv[1:],
                "children": children,
            }
            self.answer(200, said)

    def answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


for said in range(wanted.say):
    print(f"trouble {said}", file=sys.stderr, flush=True)
if wanted.last_words:
    print(wanted.last_words, file=sys.stderr, flush=True)
if wanted.fail is not None:
    sys.exit(wanted.fail)
children = [
    subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=is_away, env=variables).pid
    for is_wanted, is_away, variables in (
        (wanted.fork, False, None),
        (wanted.fork_away, True, None),
        (wanted.fork_clean, False, {}),
    )
    if is_wanted
]
if wanted.ignore_term:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
threading.Event().wait(wanted.dawdle_s)
ThreadingHTTPServer.daemon_threads = True
server = ThreadingHTTPServer((wanted.host, wanted.port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Event().wait()
