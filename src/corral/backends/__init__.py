"""What can be installed: galleries, their copies, and which build fits which node."""
