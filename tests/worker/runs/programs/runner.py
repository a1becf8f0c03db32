"""Stands in for `python -m corral.runner`: plays the script that each run brings in `spec.extra`.

A script is a list of steps; those that wait go on with the message that they wait for.

    {"say": "text"}, {"think": "text"}       a delta
    {"event": type, "tool": …, "data": …}    an entry
    {"wait": "cancel"}                       until the run is cancelled; then it ends as cancelled
    {"wait": "decide"}                       until a decision; it is repeated as a status entry
    {"ask": {…}}                             a call of another agent; the reply is repeated as a status entry
    {"store": {…}}                           a call that stores a file; the reply is repeated as a status entry
    {"flush": true}                          until the trace is stored; the reply is repeated as a status entry
    {"start_child": true}                    a process that sleeps; its pid is a status entry
    {"raw": "text", "times": 1}              a line as it is, with its text so often
    {"hang": true}                           nothing more, whatever comes
    {"die": signal}                          the process ends itself
    {"end": {…}}                             the end

A cancelled run ends as cancelled, unless it hangs. Arguments: `mute` never says that it is ready, `fail` ends at once.
"""

import json
import os
import signal
import subprocess
import sys
from typing import Any


class Run:
    def __init__(self, run_id: str, spec: dict[str, Any]) -> None:
        self.run_id = run_id
        self.steps = list(spec["extra"].get("script", []))
        self.waits = ""
        send(type="event", run_id=run_id, event_type="step", data={"spec": spec, "environment": sorted(os.environ)})

    def go_on(self) -> None:
        """Play steps until one waits."""
        self.waits = ""
        while self.steps and not self.waits and self.run_id in RUNS:
            step = self.steps.pop(0)
            (kind,) = {
                "say",
                "think",
                "event",
                "wait",
                "ask",
                "store",
                "flush",
                "start_child",
                "raw",
                "hang",
                "die",
                "end",
            } & set(step)
            self.play(kind, step)

    def play(self, kind: str, step: dict[str, Any]) -> None:
        if kind == "say":
            self.tell("content", {"text": step["say"]})
        elif kind == "think":
            self.tell("reasoning", {"text": step["think"]})
        elif kind == "event":
            self.tell(step["event"], step.get("data", {}), step.get("tool", ""))
        elif kind in ("wait", "hang"):
            self.waits = step.get("wait", "nothing")
        elif kind == "ask":
            self.waits = "reply"
            send(type="call", id=f"call of {self.run_id}", run_id=self.run_id, method="ask_agent", params=step["ask"])
        elif kind == "store":
            self.waits = "reply"
            send(
                type="call", id=f"call of {self.run_id}", run_id=self.run_id, method="store_file", params=step["store"]
            )
        elif kind == "flush":
            self.waits = "reply"
            send(type="call", id=f"call of {self.run_id}", run_id=self.run_id, method="flush")
        elif kind == "start_child":
            child = subprocess.Popen(["sleep", "600"])
            self.tell("status", {"child": child.pid})
        elif kind == "raw":
            sys.stdout.write(step["raw"] * step.get("times", 1) + "\n")
            sys.stdout.flush()
        elif kind == "die":
            os.kill(os.getpid(), step["die"])
        else:
            self.end(step["end"])

    def tell(self, event_type: str, data: dict[str, Any], tool: str = "") -> None:
        send(type="event", run_id=self.run_id, event_type=event_type, tool=tool, data=data)

    def end(self, outcome: dict[str, Any]) -> None:
        del RUNS[self.run_id]
        send(type="end", run_id=self.run_id, outcome=outcome)

    def handle(self, message: dict[str, Any]) -> None:
        if message["type"] == "cancel" and self.waits != "nothing":
            self.end({"state": "cancelled", "reason": "cancelled"})
        elif message["type"] == self.waits:
            self.tell("status", message)
            self.go_on()


RUNS: dict[str, Run] = {}


def send(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    if "fail" in sys.argv:
        sys.exit("the runner is unwell")
    if "mute" in sys.argv:
        signal.pause()
    sys.stderr.write("the runner has something to say\n")
    sys.stderr.write('{"event": "run status", "level": "warning", "run_id": "r1", "logger": "x", "timestamp": "y"}\n')
    send(type="ready", pid=os.getpid(), version="test")
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "stop":
            return
        if message["type"] == "ping":
            send(type="pong")
            continue
        if message["type"] == "start":
            run = RUNS[message["run_id"]] = Run(message["run_id"], message["spec"])
            run.go_on()
            continue
        run_id = message.get("run_id") or message.get("id", "").removeprefix("call of ")
        if run_id in RUNS:
            RUNS[run_id].handle(message)


main()
