"""Collections of documents: uploads, reading by workers, search, sources, and what agents remember."""
