"""The port of a frontend: how it is taken, shared by several processes, served, and left."""
