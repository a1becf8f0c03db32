// The plan of a change: the nodes, the build of each, the bytes to download, and which nodes are left out and why.
import type { UseQueryResult } from "@tanstack/react-query";
import type { BackendPlanOut } from "@/api/schema";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { LoadingLines } from "@/kit/QueryView";
import { Pill } from "@/kit/status";
import { listRefusals } from "@/pages/backends/nodeChoice";
import { bytes, plural } from "@/text/format";

const ROWS_SHOWN = 50;

export function PlanPreview({ query }: { query: UseQueryResult<BackendPlanOut, Error> }) {
  if (query.error && !query.isFetching) return <RefusedNodes error={query.error} />;
  if (!query.data) return query.isFetching ? <LoadingLines lines={2} /> : null;
  return <PlannedNodes plan={query.data} isOld={query.isPlaceholderData} />;
}

/** Shown if no node can have the backend: the sentence, and the reason of each node. */
function RefusedNodes({ error }: { error: Error }) {
  const reasons = listRefusals(error);
  return (
    <div className="stack tight">
      <ErrorNotice error={error} />
      {reasons.length > 0 && (
        <ul className="plain small soft" aria-label="Reasons">
          {reasons.map((one) => (
            <li key={one.node}>
              {one.node}: {one.reason}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function PlannedNodes({ plan, isOld }: { plan: BackendPlanOut; isOld: boolean }) {
  const skipped = plan.skipped ?? [];
  const hasWaves = plan.nodes.some((node) => node.wave > 0);
  const hasBuilds = plan.nodes.some((node) => node.version);
  return (
    <section className="stack tight backends-plan" aria-label="Plan" aria-busy={isOld}>
      <p>
        <strong>{planSentence(plan)}</strong>
      </p>
      <div className="table-box">
        <table>
          <thead>
            <tr>
              {hasWaves && <th>Wave</th>}
              <th>Node</th>
              <th>Build</th>
              {hasBuilds && <th>Version</th>}
              {hasBuilds && <th className="right">Download</th>}
            </tr>
          </thead>
          <tbody>
            {plan.nodes.slice(0, ROWS_SHOWN).map((node) => (
              <tr key={node.node_id}>
                {hasWaves && <td className="number">{node.wave + 1}</td>}
                <td>
                  {node.node_name}{" "}
                  {node.node_status !== "healthy" && <Pill tone="still">when it returns</Pill>}
                </td>
                <td className="number">{node.backend}</td>
                {hasBuilds && (
                  <td className="number">
                    {node.previous_version && node.previous_version !== node.version
                      ? `${node.previous_version} → ${node.version}`
                      : node.version || "latest"}
                  </td>
                )}
                {hasBuilds && (
                  <td className="number right">
                    {node.fetch_bytes === 0 ? "nothing" : bytes(node.fetch_bytes)}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {plan.nodes.length > ROWS_SHOWN && (
        <p className="small soft">and {plural(plan.nodes.length - ROWS_SHOWN, "more node", "more nodes")}</p>
      )}
      {skipped.length > 0 && (
        <details>
          <summary className="small">{plural(skipped.length, "node")} skipped</summary>
          <ul className="plain small soft">
            {skipped.map((one) => (
              <li key={one.node_id}>
                {one.node_name}: {one.reason}
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function planSentence(plan: BackendPlanOut): string {
  const nodes = plural(plan.nodes.length, "node");
  if (plan.fetch_bytes == null) return `${nodes}; download size unknown.`;
  return plan.fetch_bytes === 0
    ? `${nodes}; nothing to download.`
    : `${nodes}, about ${bytes(plan.fetch_bytes)} to download.`;
}
