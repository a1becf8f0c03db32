"""Loads models: from a request for a model to a ready replica, the stopping of replicas, and the files that nodes
hold."""
