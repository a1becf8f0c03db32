"""Benchmarks: bounded in count and time, each with a named baseline in the same run. `make bench` runs them."""
