"""How things run, written once: loops, owned tasks, the one blind except, ordered start and stop."""
