// Memory, disk and requests of one node over the last half hour.
import type { NodeOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Chart } from "@/kit/chart";
import type { Curves, Name } from "@/pages/nodes/one/curves";
import { useCurves } from "@/pages/nodes/one/useCurves";
import { isAgent, isHeard } from "@/pages/nodes/tally";
import { bytes, count } from "@/text/format";

interface Drawn {
  title: string;
  lines: [string, Name][];
  format: (value: number) => string;
}

const VRAM: Drawn = { title: "VRAM in use", lines: [["VRAM", "vram_used"]], format: bytes };
const RAM: Drawn = { title: "RAM in use", lines: [["RAM", "ram_used"]], format: bytes };
const WORK: Drawn = {
  title: "Work",
  lines: [
    ["in flight", "in_flight"],
    ["replicas", "models"],
  ],
  format: count,
};
const DISK: Drawn = { title: "Disk free", lines: [["free", "disk_free"]], format: bytes };

/** A machine without a GPU has no curve of VRAM, and one without engines none of their work. */
function drawnOf(node: NodeOut): Drawn[] {
  if (isAgent(node)) return [RAM, DISK];
  return (node.total_vram ?? 0) > 0 ? [VRAM, RAM, WORK, DISK] : [RAM, WORK, DISK];
}

export function Metrics({ node }: { node: NodeOut }) {
  const curves = useCurves(node);
  return (
    <section className="panel" aria-label="The last half hour">
      {!isHeard(node) && node.last_heartbeat && (
        <p className="small soft">
          The curves end with the last heartbeat, <Ago at={node.last_heartbeat} />.
        </p>
      )}
      <div className={isHeard(node) ? "node-curves" : "node-curves nodes-stale"}>
        {drawnOf(node).map((one) => (
          <Curve key={one.title} drawn={one} curves={curves} ended={!isHeard(node)} />
        ))}
      </div>
    </section>
  );
}

function Curve({ drawn, curves, ended }: { drawn: Drawn; curves: Curves; ended: boolean }) {
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
