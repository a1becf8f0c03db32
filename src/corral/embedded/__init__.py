"""PostgreSQL, NATS and Corral's own processes as supervised children of one `corral up`.

Everything here is light on purpose: no web framework, no database driver and no logging library is imported, because
the time this process needs before it starts the others is time that a person waits.
"""
