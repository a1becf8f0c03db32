"""The command line: what people and their scripts type.

Standard output is data, standard error is talk. `main.py` lists the commands and loads only the one that was asked
for; `render.py` makes every printed character; `command.py` gives each client command its connection.
"""
