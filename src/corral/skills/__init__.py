"""Skills of agents: stored, imported, exported, and kept in step with git repositories."""
