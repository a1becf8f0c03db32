"""Composition: settings, logging and the processes that are put together from the parts below."""
