"""Observes the requests that have ended: numbers, an access log, traces.

Each request is reported here exactly once (`ports/requests.py`), without its content.
"""
