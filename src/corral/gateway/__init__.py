"""The hot path: calls that models answer, from the client's connection to the engine's and back, without a framework.

`protocol.py` stands between the socket and uvicorn: it answers the plain form of the hot calls itself and leaves
everything else, byte for byte, to uvicorn's own protocol on the same connection.
"""
