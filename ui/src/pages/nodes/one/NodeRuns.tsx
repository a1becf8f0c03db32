// The runs that a node executes now. Callers who are no admins see their own.
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { NodeOut } from "@/api/schema";
import { Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { describeRunPlaces } from "@/pages/nodes/one/words";
import { runsQuery } from "@/pages/runs/queries";
import { RunRow } from "@/pages/runs/RunRow";
import { useHasScope } from "@/shell/me";
import "@/pages/runs/runs.css";

export function NodeRuns({ node }: { node: NodeOut }) {
  const isAdmin = useHasScope("admin");
  const view = { node: node.id, state: "open", owner: "everybody", isAdmin, hasStream: true } as const;
  const query = useInfiniteQuery(runsQuery(view));
  const runs = query.data?.pages.flatMap((page) => page.runs) ?? [];
  return (
    <Panel
      title="Runs"
      note={describeRunPlaces(node, query.data && isAdmin ? runs.length : null)}
      actions={
        <Link
          className="small"
          to="/runs"
          search={{ node: node.name, ...(isAdmin ? { owner: "everybody" as const } : {}) }}
        >
          All runs on {node.name}
        </Link>
      }
    >
      <QueryView query={query}>
        {() =>
          runs.length === 0 ? (
            <p className="soft">
              {isAdmin ? "No active runs on this node." : "You have no active runs on this node."}
            </p>
          ) : (
            <ul className="plain runs-list" aria-label="Runs">
              {runs.map((run) => (
                <RunRow key={run.id} run={run} withOwner={isAdmin} withNode={false} />
              ))}
            </ul>
          )
        }
      </QueryView>
    </Panel>
  );
}
