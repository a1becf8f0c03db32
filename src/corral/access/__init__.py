"""Who may do what: join tokens, API keys, node credentials, and the in-memory directory that checks them.

May import store, runtime, policy, ports, domain.
"""
