"""Fine-tunings: runs that train a model on a backend node, their checkpoints, and exports that register models."""
