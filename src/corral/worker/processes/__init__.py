"""The engines that run on this machine: started, watched, restarted, adopted, stopped, and what they print.

launch            turns a manifest and a start command into a process command, pure
port_pool         which port belongs to which engine, and how many processor threads each may use, pure
process_control   what the operating system has to do; `system_process_control` is the real one
journal           what processes are called, `model#replica`, and their records for the next worker
process_log       what engines print, numbered and bounded
engine            the life of one engine
engine_health     checks whether an engine is ready, and whether ready engines still answer
supervisor        all engines, also those of a worker that was killed: `worker.job_ports.ProcessSupervisor`
"""
