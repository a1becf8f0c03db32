"""Executes runs on this machine: accepts them, hands them to the runner process, and delivers their traces.

`executor.py` knows all runs of this worker, `active_run.py` drives one of them, `runner_supervisor.py` keeps the
process that does the work, `event_queue.py` numbers and joins the entries of a trace, `trace_sender.py` sends them to a
frontend.
"""
