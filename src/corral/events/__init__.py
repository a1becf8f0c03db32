"""Following the outbox: one feed per frontend, for the in-memory directory and for everyone who watches."""
