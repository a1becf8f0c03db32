"""The engines that run on this machine: started, watched, restarted, adopted, stopped, and what they print.

keys        what a process is called: `model#replica`
launch      a manifest and a wish become a command, pure
ports       which port is whose, pure
threads     who may use how many processor threads, pure
restarts    how long to wait after which crash, pure
machine     what is asked of the operating system; `system` is the real one
probe       is an engine ready?
journal     what ran, for the next worker
logs        what engines print, numbered and bounded
engine      the life of one engine
watching    does what is ready still answer?
adoption    what a worker that was killed has left behind
supervisor  all of them: `worker.work.Processes`
"""
