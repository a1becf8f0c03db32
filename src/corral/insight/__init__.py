"""What can be seen of the requests that have ended: numbers, an access log, traces.

Everything here is told of each request exactly once (`ports/answers.py`) and knows nothing of how it was answered.
"""
