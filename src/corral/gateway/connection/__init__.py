"""Client connections: HTTP parser, protocol classes and limits, between the socket and uvicorn.

`protocol.py` answers the plain form of the inference calls itself and leaves every other request, byte for byte, to
uvicorn's own protocol on the same connection. Only this package of `corral.gateway` knows uvicorn and httptools.
"""
