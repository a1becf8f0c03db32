"""Domain types, their states and the error tree. Standard library only; imports nothing else of Corral."""
