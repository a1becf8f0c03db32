"""The streams of changes, progress and numbers, and the last hour of them.

`board.py` has the numbers that are made once for all watchers, `frames.py` the frames of changes and progress,
`watching.py` the one stream that every route is a filter of, `routes.py` and `history.py` the routes. Nothing is
imported here: `parts.py` needs the board, and the routes need `parts.py`.
"""
