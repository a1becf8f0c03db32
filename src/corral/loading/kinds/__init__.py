"""Handlers for each kind of operation about a model: load, install and stage, unload and delete."""
