// Memory, disk and requests of one node over the last half hour.
import type { NodeOut } from "@/api/schema";
import { Chart } from "@/kit/chart";
import type { Curves, Name } from "@/pages/nodes/one/curves";
import { useCurves } from "@/pages/nodes/one/useCurves";
import { bytes, count } from "@/text/format";

interface Drawn {
  title: string;
  lines: [string, Name][];
  format: (value: number) => string;
}

const VRAM: Drawn = { title: "VRAM in use", lines: [["VRAM", "vram_used"]], format: bytes };
const ALWAYS: Drawn[] = [
  { title: "RAM in use", lines: [["RAM", "ram_used"]], format: bytes },
  {
    title: "Work",
    lines: [
      ["in flight", "in_flight"],
      ["replicas", "models"],
    ],
    format: count,
  },
  { title: "Disk free", lines: [["free", "disk_free"]], format: bytes },
];

export function Metrics({ node }: { node: NodeOut }) {
  const curves = useCurves(node);
  // A machine without a GPU has no such curve.
  const drawn = (node.total_vram ?? 0) > 0 ? [VRAM, ...ALWAYS] : ALWAYS;
  return (
    <section className="panel" aria-label="The last half hour">
      <div className="node-curves">
        {drawn.map((one) => (
          <Curve key={one.title} drawn={one} curves={curves} />
        ))}
      </div>
    </section>
  );
}

function Curve({ drawn, curves }: { drawn: Drawn; curves: Curves }) {
  const series = drawn.lines.map(([label, name]) => ({ label, values: curves.series[name] }));
  return (
    <div className="stack tight">
      <h2 className="node-curve">{drawn.title}</h2>
      <Chart title={drawn.title} at={curves.at} series={series} format={drawn.format} height={120} filled />
    </div>
  );
}
