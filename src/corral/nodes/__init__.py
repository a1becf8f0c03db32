"""The node registry: registration, life cycle, heartbeats, labels, capacity, commands.

May import access, store, runtime, policy, ports, domain. Decisions about status and capacity are in `policy`.
"""
