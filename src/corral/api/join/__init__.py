"""`/join`: a script, a wheel and locked requirements, so that a machine with Python alone becomes a node.

`package.py` packs this frontend's own code into a wheel, `address.py` chooses the address that the other machine uses,
`script.py` fills `join.sh` in, and `routes.py` serves them.
"""
