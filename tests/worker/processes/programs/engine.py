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
options = flags.parse_args()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        place = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(place.query).items()}
        if place.path == "/health":
            is_ready = not options.never_ready and (not options.ready_when or Path(options.ready_when).exists())
            self.answer(200 if is_ready else 503, {})
        elif place.path == "/crash":
            print("about to crash", file=sys.stderr, flush=True)
            os._exit(int(query.get("code", "7")))
        elif place.path == "/print":
            for number in range(int(query["lines"])):
                print(f"line {number} " + "x" * int(query.get("width", "0")))
            sys.stdout.flush()
            self.answer(200, {})
        else:
            content = {
                "pid": os.getpid(),
                "environment": dict(os.environ),
                "arguments": sys.argv[1:],
                "children": children,
            }
            self.answer(200, content)

    def answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


for number in range(options.say):
    print(f"trouble {number}", file=sys.stderr, flush=True)
if options.last_words:
    print(options.last_words, file=sys.stderr, flush=True)
if options.fail is not None:
    sys.exit(options.fail)
children = [
    subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=is_away, env=variables).pid
    for is_enabled, is_away, variables in (
        (options.fork, False, None),
        (options.fork_away, True, None),
        (options.fork_clean, False, {}),
    )
    if is_enabled
]
if options.ignore_term:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
threading.Event().wait(options.dawdle_s)
ThreadingHTTPServer.daemon_threads = True
server = ThreadingHTTPServer((options.host, options.port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Event().wait()
