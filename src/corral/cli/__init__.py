"""The command line of Corral, for people and scripts.

Data goes to standard output, messages to standard error. `main.py` lists the commands and imports only the one that
is used; `render.py` makes every printed character; `command.py` gives each client command its connection.
"""
