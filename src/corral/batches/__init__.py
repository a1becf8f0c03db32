"""Batches: files of requests that one run answers behind all other traffic."""
