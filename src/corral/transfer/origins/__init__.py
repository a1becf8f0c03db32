"""Where files of models come from: one module for each kind of address, all of them with the shape of `origin.py`."""
