"""The jobs of a worker: accepted fast, on disk before the reply, done in the background, reported by numbered events.

journal              the records of jobs, which outlive the process, however it ends
job                  one job: where it is, and how often that is sent; the jobs that the runner knows
runner               accepts, drives, cancels and resumes, and sends events to the bus
job_dispatcher       what each kind of job does
garbage_collector    removes unused files once a day

Limit: nothing here knows how a backend is installed or a process is run; `worker/job_ports.py` has the ports for those.
"""
