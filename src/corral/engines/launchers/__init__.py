"""Launchers of engines: programs, not modules. Each file is copied beside an engine and run by its interpreter."""
