"""PostgreSQL, the only source of truth. Production and the simulator run the same code.

`schema.py` has the tables, `database.py` transactions; one module per noun has functions that take a transaction.
Every change writes its event to the outbox in the same transaction. Times that are compared come from the
database (`corral_now()`), never from a machine's clock.
"""
