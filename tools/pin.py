"""`python -m tools.pin "faster-whisper==1.2.1" aiohttp`: the `source` of an engine for the built-in gallery, as YAML.

Every package and its dependencies are pinned, with the hashes of the wheels for Linux and macOS on x86-64 and ARM. No
index is named: each installer uses its own. `size_bytes` is what Linux on x86-64 has to download. `--linux` and
`--python 3.12` narrow it down, for engines that bring hundreds of packages.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import parse_wheel_filename
from uv import find_uv_bin

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64"), ("darwin", "arm64"))
MACHINE_ENDINGS = ("x86_64", "aarch64", "arm64", "universal2")
LINUX = ("manylinux", "musllinux")
FIRST = re.compile(r"manylinux\w*_x86_64")


def main() -> int:
    options = read_options()
    pythons = (options.python,) if options.python else PYTHONS
    lines, size = ["kind: pypi", f'python: "{"==" + options.python + ".*" if options.python else ">=3.11"}"'], 0
    lines += ["requirements:"]
    for package in resolve_packages(options.requirements, pythons[0]):
        marker = package.get("marker", "")
        condition = make_condition(marker, pythons, options.machines)
        if condition is None:
            continue
        wheels = [
            wheel
            for wheel in package.get("wheels", ())
            if is_supported_wheel(get_wheel_name(wheel), pythons, options.systems)
        ]
        if not wheels:
            print(f"error: {package['name']} has no wheel", file=sys.stderr)
            return 1
        lines += ["  - >-", f"    {package['name']}=={package['version']}{condition}"]
        lines += sorted(f"    --hash=sha256:{wheel['hashes']['sha256']}" for wheel in wheels)
        size += (
            fetch_size(pick_best_wheel(wheels, pythons[0]))
            if make_condition(marker, pythons[:1], MACHINES[:1]) == ""
            else 0
        )
    print("\n".join([*lines, f"size_bytes: {size}"]))
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.pin", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("requirements", nargs="+", help="what to pin, as in a requirements file")
    parser.add_argument("--linux", action="store_true", help="leave macOS out")
    parser.add_argument("--python", default="", help="for this version of Python alone")
    options = parser.parse_args()
    options.machines = MACHINES[:2] if options.linux else MACHINES
    options.systems = LINUX if options.linux else (*LINUX, "macosx")
    return options


def resolve_packages(requirements: list[str], python: str) -> list[dict[str, Any]]:
    options = ("--universal", f"--python-version={python}", "--no-build", "--quiet", "--format=pylock.toml")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.txt", Path(folder) / "pylock.toml"
        source.write_text("\n".join(requirements), encoding="utf-8")
        subprocess.run([find_uv_bin(), "pip", "compile", *options, "-o", target, source], check=True)
        packages: list[dict[str, Any]] = tomllib.loads(target.read_text(encoding="utf-8"))["packages"]
    return packages


def make_condition(marker: str, pythons: tuple[str, ...], machines: tuple[tuple[str, str], ...]) -> str | None:
    """Return the text behind the version; None for a package that no such machine needs."""
    if not marker:
        return ""
    found = set()
    for python, (system, machine) in itertools.product(pythons, machines):
        place = {"sys_platform": system, "platform_system": system.capitalize(), "platform_machine": machine}
        found.add(Marker(marker).evaluate(place | {"python_full_version": f"{python}.0", "python_version": python}))
    if found == {True, False}:
        return f" ; {marker}"
    return "" if True in found else None


def get_wheel_name(wheel: dict[str, Any]) -> str:
    return str(wheel.get("name") or wheel["url"]).rpartition("/")[2]


def is_supported_wheel(name: str, pythons: tuple[str, ...], systems: tuple[str, ...]) -> bool:
    exact = {f"cp{python.replace('.', '')}" for python in pythons}
    for tag in parse_wheel_filename(name)[3]:
        fits = tag.abi in ("abi3", "none") or tag.abi in exact
        here = tag.platform.startswith(systems) and tag.platform.endswith(MACHINE_ENDINGS)
        if fits and (tag.platform == "any" or here):
            return True
    return False


def pick_best_wheel(wheels: list[dict[str, Any]], python: str) -> str:
    """Return the address of the wheel that Linux on x86-64 would take."""
    exact = f"cp{python.replace('.', '')}"
    tags = [(wheel["url"], tag) for wheel in wheels for tag in parse_wheel_filename(get_wheel_name(wheel))[3]]
    ranked = [(tag.abi != exact, url) for url, tag in tags if tag.platform == "any" or FIRST.fullmatch(tag.platform)]
    return str(min(ranked)[1]) if ranked else ""


def fetch_size(address: str) -> int:
    if not address:
        return 0
    with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=60) as answer:
        return int(answer.headers["Content-Length"])


if __name__ == "__main__":
    sys.exit(main())
