"""The worker: the program on one machine. It joins a cluster, reports what the machine has, and does what it is told.

It answers: who am I (`identity`), may I act (`agent`), how do I reach the frontends (`control`) and the bus (`link`),
what has this machine (`readings`, `hardware`). It imports `client`, `wire`, `runtime`, `bus`, `ports` and `domain`; it
never imports the store, the API or any other flow, because it installs without their libraries.
"""
