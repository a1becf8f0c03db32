"""`/app/`: the web page, out of memory, and what stands there while it is not built.

The page itself is written in `ui/` and built by `tools/page.py` into `built/`, which is shipped with the wheel.
"""
