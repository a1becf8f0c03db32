"""nginx for the benchmarks: the one in PATH, or else the system's package, unpacked and not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAIN = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit; worker_rlimit_nofile 16384;
events {{ worker_connections 16384; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  {inside}
}}
"""


@contextmanager
def nginx(folder: Path, port: int, inside: str) -> Iterator[int]:
    """Run nginx and yield its process id. `inside` is the content of its `http` block."""
    config = folder / "nginx.conf"
    config.write_text(_MAIN.format(folder=folder, inside=inside))
    # As root nginx would serve as another user, who may not read this folder.
    user = ["-g", "user root;"] if os.geteuid() == 0 else []
    process = subprocess.Popen([_find(folder), "-p", str(folder), "-c", str(config), *user])
    try:
        deadline = time.monotonic() + 10
        asking = ["curl", "--silent", "--output", str(folder / "response"), f"http://127.0.0.1:{port}/nothing"]
        while subprocess.run(asking, check=False).returncode:
            assert time.monotonic() < deadline, "nginx did not start"
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=10)


def _find(folder: Path) -> str:
    found = shutil.which("nginx")
    if found:
        return found
    unpacked = folder / "nginx"
    unpacked.mkdir(exist_ok=True)
    subprocess.run(["apt-get", "download", "nginx"], cwd=unpacked, check=True, capture_output=True)
    (package,) = unpacked.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package.name, "root"], cwd=unpacked, check=True, capture_output=True)
    return str(unpacked / "root/usr/sbin/nginx")
