// The logs of the node's engines: choose a process, and its lines are shown as they are written.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Select } from "@/kit/fields";
import { EmptyState, Panel } from "@/kit/Panel";
import { LoadingLines, QueryView } from "@/kit/QueryView";
import { logKeysQuery } from "@/pages/nodes/one/queries";

const LogView = lazy(() => import("@/pages/nodes/one/LogView"));

export function Logs({ node }: { node: NodeOut }) {
  const query = useQuery(logKeysQuery(node.id));
  const { log } = useSearch({ from: "/nodes/$node" });
  const navigate = useNavigate({ from: "/nodes/$node" });
  const keys = query.data ?? [];
  const shown = log ?? keys[0];
  // The log that the URL names may be empty, and is then not in the list.
  const all = shown && !keys.includes(shown) ? [shown, ...keys] : keys;
  return (
    <Panel
      title="Logs"
      note="Engine output, stored by the worker."
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
            busy={query.isFetching}
            onClick={() => void query.refetch()}
          >
            Refresh
          </Button>
        </div>
      }
    >
      <QueryView query={query}>
        {() =>
          shown ? (
            <Suspense fallback={<LoadingLines lines={6} />}>
              <LogView key={shown} node={node} process={shown} />
            </Suspense>
          ) : (
            <EmptyState title="No engine output yet." />
          )
        }
      </QueryView>
    </Panel>
  );
}
