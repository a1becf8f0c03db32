"""`/join`: a script, a wheel and locked requirements, so that a machine with Python alone becomes a node.

`address.py` chooses the address that the other machine uses; `routes.py` packs this frontend's own code into a wheel,
fills `join.sh` in, and serves both.
"""
