// The engine processes that run on the node, as its worker reports them.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { EngineProcessOut, NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { Pill, type Tone } from "@/kit/status";
import { endProcess } from "@/pages/nodes/calls";
import { processesQuery } from "@/pages/nodes/one/queries";
import { bytes, plural } from "@/text/format";

const TONES: Record<string, Tone> = { ready: "good", starting: "busy", failed: "bad", stopped: "still" };

export function Processes({ node }: { node: NodeOut }) {
  const query = useQuery(processesQuery(node.id));
  const [ending, end] = useState<EngineProcessOut | null>(null);
  const queries = useQueryClient();
  const confirm = async (process: EngineProcessOut) => {
    await endProcess(node.id, process.key, false);
    await queries.invalidateQueries({ queryKey: ["nodes"] });
  };
  return (
    <Panel
      title="Processes"
      note="Reported live by the worker."
      actions={
        <Button small kind="quiet" icon="again" busy={query.isFetching} onClick={() => void query.refetch()}>
          Refresh
        </Button>
      }
    >
      <QueryView query={query}>
        {(processes) =>
          processes.length === 0 ? (
            <p className="soft">No engines running.</p>
          ) : (
            <ul className="plain node-processes">
              {processes.map((process) => (
                <li key={process.key} className="row apart">
                  <div className="row">
                    <strong>{process.key}</strong>
                    <Pill tone={TONES[process.state] ?? "busy"}>{process.state}</Pill>
                    <span className="small soft">
                      {process.backend} {process.version}, process {process.pid}
                      {process.restarts > 0 && `, restarted ${plural(process.restarts, "time")}`}
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
      </QueryView>
      {ending && (
        <ConfirmDialog
          title={`End ${ending.key}?`}
          verb={`End ${ending.key}`}
          onClose={() => end(null)}
          onConfirm={() => confirm(ending)}
        >
          The engine is stopped, and restarted if its replica is still assigned. To stop it permanently,
          unload the replica instead.
        </ConfirmDialog>
      )}
    </Panel>
  );
}
