"""Origins of model files: one module for each kind of address, all of them with the shape of `file_origin.py`."""
