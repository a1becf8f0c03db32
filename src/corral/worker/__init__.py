"""The worker: the program on one machine. It joins a cluster, reports what the machine has, and carries out commands.

Its modules answer: which node this machine is (`identity`), whether it may act (`membership`), how it reaches the
frontends (`control_plane`) and the bus (`bus_link`), and what the machine has (`hardware_reader`, `hardware`). The
worker imports `client`, `wire`, `runtime`, `bus`, `ports` and `domain`; it never imports the store, the API or any
other flow, because it installs without their libraries.
"""
