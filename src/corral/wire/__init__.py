"""JSON bodies of Corral's HTTP API, shared by `api`, `client` and `worker`. Domain code never sees these types.

What people and programs send us is checked strictly (an unknown field is an error that names it). What machines
send each other, such as a worker's registration, ignores unknown fields so that versions can be mixed.
"""
