"""What stands at `/app/` while there is no page: one small document without scripts.

While the page is being built it looks again every second; else it says what to do. Its policy allows its own style, by
the hash of it, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape

from corral.api.page.page import Missing

REFRESH_S = 1
_STYLE = """
:root { color-scheme: light dark;
  --ground: #f7f5f0; --ink: #1d1b16; --quiet: #6b665a; --line: #d9d4c7; --mark: #b4541a; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #161511; --ink: #efece3; --quiet: #a39d8d; --line: #35322a; --mark: #f0935a; }
}
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px; background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 34rem; border-top: 2px solid var(--mark); padding-top: 20px; }
h1 { margin: 0 0 8px; font-size: 22px; line-height: 1.25; font-weight: 600; text-wrap: balance; }
p { margin: 0; color: var(--quiet); overflow-wrap: anywhere; }
code { font: 14px/1.4 ui-monospace, monospace; color: var(--ink); border: 1px solid var(--line); border-radius: 4px;
  padding: 1px 5px; }
.bar { height: 2px; margin-top: 20px; overflow: hidden; background: var(--line); }
.bar::after { content: ""; display: block; width: 30%; height: 100%; background: var(--mark);
  animation: pass 1s ease-in-out infinite alternate; }
@keyframes pass { to { transform: translateX(233%); } }
@media (prefers-reduced-motion: reduce) { .bar::after { animation: none; } }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_COMMAND = re.compile(r"`([^`]+)`")


def render(missing: Missing) -> bytes:
    again = f'<meta http-equiv="refresh" content="{REFRESH_S}">\n' if missing.is_building else ""
    bar = '<div class="bar" aria-hidden="true"></div>\n' if missing.is_building else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{again}<title>Corral</title>
<link rel="icon" href="data:,">
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{_marked(missing.sentence)}</h1>
<p>{_marked(missing.hint)}</p>
{bar}</main>
</body>
</html>
""".encode()


def _marked(text: str) -> str:
    """What stands between backticks is a command."""
    return _COMMAND.sub(r"<code>\1</code>", escape(text))
