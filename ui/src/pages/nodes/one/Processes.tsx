// What really runs there, as the worker says it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { NodeOut, ProcessOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Panel } from "@/kit/Panel";
import { Pill, type Tone } from "@/kit/status";
import { endProcess } from "@/pages/nodes/calls";
import { processesOf } from "@/pages/nodes/one/queries";
import { bytes, plural } from "@/text/format";

const TONES: Record<string, Tone> = { ready: "good", starting: "busy", failed: "bad", stopped: "still" };

export function Processes({ node }: { node: NodeOut }) {
  const asked = useQuery(processesOf(node.id));
  const [ending, end] = useState<ProcessOut | null>(null);
  const queries = useQueryClient();
  const confirm = async (process: ProcessOut) => {
    await endProcess(node.id, process.key, false);
    await queries.invalidateQueries({ queryKey: ["nodes"] });
  };
  return (
    <Panel
      title="Processes"
      note="Asked of the worker itself."
      actions={
        <Button small kind="quiet" icon="again" busy={asked.isFetching} onClick={() => void asked.refetch()}>
          Ask again
        </Button>
      }
    >
      <Answered query={asked}>
        {(processes) =>
          processes.length === 0 ? (
            <p className="soft">No engine runs there.</p>
          ) : (
            <ul className="plain node-processes">
              {processes.map((process) => (
                <li key={process.key} className="row apart">
                  <div className="row">
                    <strong>{process.key}</strong>
                    <Pill tone={TONES[process.state] ?? "busy"}>{process.state}</Pill>
                    <span className="small soft">
                      {process.backend} {process.version}, process {process.pid}
                      {process.restarts > 0 && `, started again ${plural(process.restarts, "time")}`}
                      {process.ram_bytes != null && `, ${bytes(process.ram_bytes)}`}
                      {process.cpu_percent != null && `, ${Math.round(process.cpu_percent)} % CPU`}
                    </span>
                  </div>
                  <span className="row">
                    <Link
                      className="small"
                      to="/nodes/$node"
                      params={{ node: node.name }}
                      search={{ tab: "logs", log: process.key }}
                      aria-label={`Logs of process ${process.key}`}
                    >
                      Logs
                    </Link>
                    <Button small kind="quiet" aria-label={`End ${process.key}`} onClick={() => end(process)}>
                      End
                    </Button>
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Answered>
      {ending && (
        <Confirm
          title={`End ${ending.key}?`}
          verb={`End ${ending.key}`}
          onClose={() => end(null)}
          onConfirm={() => confirm(ending)}
        >
          The engine is stopped. To take a model away for good, unload its replica instead: what is wanted is
          started again.
        </Confirm>
      )}
    </Panel>
  );
}
