"""Usage: every request that was answered is counted once, also when PostgreSQL is away or this process is killed."""
