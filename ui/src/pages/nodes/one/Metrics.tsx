// Memory, disk and requests of one node over the last half hour.
import type { NodeOut } from "@/api/schema";
import { Chart } from "@/kit/chart";
import { RelativeTime } from "@/kit/RelativeTime";
import { hasCurrentHeartbeat, isAgent } from "@/pages/nodes/fleetSummary";
import type { NodeCurveName, NodeCurves } from "@/pages/nodes/one/nodeCurves";
import { useNodeCurves } from "@/pages/nodes/one/useNodeCurves";
import { bytes, formatCount } from "@/text/format";

interface ChartSpec {
  title: string;
  lines: [string, NodeCurveName][];
  format: (value: number) => string;
}

const VRAM: ChartSpec = { title: "VRAM in use", lines: [["VRAM", "vram_used"]], format: bytes };
const RAM: ChartSpec = { title: "RAM in use", lines: [["RAM", "ram_used"]], format: bytes };
const WORK: ChartSpec = {
  title: "Work",
  lines: [
    ["in flight", "in_flight"],
    ["replicas", "models"],
  ],
  format: formatCount,
};
const DISK: ChartSpec = { title: "Disk free", lines: [["free", "disk_free"]], format: bytes };

/** A machine without a GPU has no curve of VRAM, and one without engines none of their work. */
function listCharts(node: NodeOut): ChartSpec[] {
  if (isAgent(node)) return [RAM, DISK];
  return (node.total_vram ?? 0) > 0 ? [VRAM, RAM, WORK, DISK] : [RAM, WORK, DISK];
}

export function Metrics({ node }: { node: NodeOut }) {
  const curves = useNodeCurves(node);
  return (
    <section className="panel" aria-label="Last 30 minutes">
      {!hasCurrentHeartbeat(node) && node.last_heartbeat && (
        <p className="small soft">
          Data ends at the last heartbeat, <RelativeTime at={node.last_heartbeat} />.
        </p>
      )}
      <div className={hasCurrentHeartbeat(node) ? "node-curves" : "node-curves nodes-stale"}>
        {listCharts(node).map((one) => (
          <Curve key={one.title} drawn={one} curves={curves} ended={!hasCurrentHeartbeat(node)} />
        ))}
      </div>
    </section>
  );
}

function Curve({ drawn, curves, ended }: { drawn: ChartSpec; curves: NodeCurves; ended: boolean }) {
  const series = drawn.lines.map(([label, name]) => ({ label, values: curves.series[name] }));
  return (
    <div className="stack tight">
      <h2 className="node-curve">{drawn.title}</h2>
      <Chart
        title={drawn.title}
        at={curves.at}
        series={series}
        format={drawn.format}
        height={120}
        filled
        ended={ended}
      />
    </div>
  );
}
