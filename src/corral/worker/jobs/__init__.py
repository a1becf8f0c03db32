"""What a worker does when it is told to: accepted fast, on disk before it is answered, done in the background, told by
numbered events.

journal       what outlives the process, however it ends
job, telling  one job: where it is, and how often that is told
turns         who may work on a backend now
runner        accepts, drives, cancels and resumes
doing         what each kind of job does; `loading` has those about models
events        the way out to the bus
model_files   the removal of a model's files

Limit: nothing here knows how a backend is installed or a process is run; `worker/work.py` has what is asked of those.
"""
