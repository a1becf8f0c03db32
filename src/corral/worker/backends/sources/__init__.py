"""Sources of a backend's files: one module for each kind of source, all of them with the same two steps.

`resolve` finds out what exactly will be fetched, and how much; `stage` fetches, verifies and unpacks it into a folder.
"""
