"""Building blocks for running code: loops, owned tasks, the one blind except, ordered start and stop."""
