"""Programs, not modules: each file is copied beside an engine and run by the interpreter of that engine."""
