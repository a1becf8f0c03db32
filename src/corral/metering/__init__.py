"""Usage: every answered request is counted once, also when PostgreSQL is down or this process is killed."""
