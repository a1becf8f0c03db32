"""`/app/`: the web page, served from memory, and a placeholder while it is not built.

The page itself is written in `ui/` and built by `tools/page.py` into `built/`, which is shipped with the wheel.
"""
