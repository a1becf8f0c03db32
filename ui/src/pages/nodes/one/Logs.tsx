// What the engines of the node print: choose a process, and its lines come as they are written.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { NodeOut } from "@/api/schema";
import { Answered, Waiting } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Select } from "@/kit/fields";
import { Empty, Panel } from "@/kit/Panel";
import { logKeysOf } from "@/pages/nodes/one/queries";

const LogView = lazy(() => import("@/pages/nodes/one/LogView"));

export function Logs({ node }: { node: NodeOut }) {
  const asked = useQuery(logKeysOf(node.id));
  const { log } = useSearch({ from: "/nodes/$node" });
  const navigate = useNavigate({ from: "/nodes/$node" });
  const keys = asked.data ?? [];
  const shown = log ?? keys[0];
  // One that was asked for by an address may not have printed anything yet.
  const all = shown && !keys.includes(shown) ? [shown, ...keys] : keys;
  return (
    <Panel
      title="Logs"
      note="What engines print, kept by the worker."
      actions={
        <div className="row">
          {shown && (
            <div className="node-process">
              <Select
                label="Process"
                value={shown}
                onChange={(event) =>
                  void navigate({
                    search: (was) => ({ ...was, log: event.target.value }),
                    replace: true,
                  })
                }
              >
                {all.map((key) => (
                  <option key={key} value={key}>
                    {key}
                  </option>
                ))}
              </Select>
            </div>
          )}
          <Button
            small
            kind="quiet"
            icon="again"
            busy={asked.isFetching}
            onClick={() => void asked.refetch()}
          >
            Look for more
          </Button>
        </div>
      }
    >
      <Answered query={asked}>
        {() =>
          shown ? (
            <Suspense fallback={<Waiting lines={6} />}>
              <LogView key={shown} node={node} process={shown} />
            </Suspense>
          ) : (
            <Empty title="No engine has printed anything here yet." />
          )
        }
      </Answered>
    </Panel>
  );
}
