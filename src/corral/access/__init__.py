"""Authentication and authorisation: join tokens, API keys, node credentials, users, sessions, and the in-memory
directory that checks them.

May import store, runtime, policy, ports, domain.
"""
