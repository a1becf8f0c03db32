// Live charts of throughput, response times, load and memory.
import { Chart } from "@/kit/chart";
import { Panel } from "@/kit/Panel";
import type { FleetCurveName, FleetCurves } from "@/pages/overview/fleetCurves";
import { useFleetCurves } from "@/pages/overview/useFleetCurves";
import { bytes, duration, formatCount, UNKNOWN } from "@/text/format";

interface ChartSpec {
  title: string;
  note: string;
  lines: [string, FleetCurveName][];
  format: (value: number) => string;
  filled?: boolean;
}

const TOKENS: ChartSpec = {
  title: "Tokens per second",
  note: "All models.",
  lines: [["tokens/s", "tokens_per_s"]],
  format: formatCount,
  filled: true,
};
const FIRST: ChartSpec = {
  title: "Time to the first token",
  note: "p50 and p95 over the last minute.",
  lines: [
    ["p50", "first_byte_p50_s"],
    ["p95", "first_byte_p95_s"],
  ],
  format: duration,
};
const REQUESTS: ChartSpec = {
  title: "Requests",
  note: "In flight, and queued for a replica.",
  lines: [
    ["in flight", "in_flight"],
    ["queued", "waiting"],
  ],
  format: formatCount,
};
const VRAM: ChartSpec = {
  title: "GPU memory",
  note: "In use on reachable nodes.",
  lines: [
    ["used", "vram_used"],
    ["total", "vram_total"],
  ],
  format: bytes,
  filled: true,
};
const RATES: ChartSpec = {
  title: "Requests per second",
  note: "Total, and server errors.",
  lines: [
    ["requests/s", "requests_per_s"],
    ["errors/s", "errors_per_s"],
  ],
  format: formatCount,
};

export function Charts() {
  const curves = useFleetCurves();
  // A fleet without GPUs has no curve of VRAM.
  const hasVram = curves.series.vram_total.some((total) => total);
  return (
    <div className="overview-charts">
      {[TOKENS, FIRST, REQUESTS, hasVram ? VRAM : RATES].map((drawn) => (
        <Curve key={drawn.title} drawn={drawn} curves={curves} />
      ))}
    </div>
  );
}

function Curve({ drawn, curves }: { drawn: ChartSpec; curves: FleetCurves }) {
  const series = drawn.lines.map(([label, name]) => ({ label, values: curves.series[name] }));
  const [now] = series;
  const latest = now?.values.at(-1);
  return (
    <Panel
      title={drawn.title}
      note={drawn.note}
      actions={<span className="number overview-now">{latest == null ? UNKNOWN : drawn.format(latest)}</span>}
    >
      <Chart
        title={drawn.title}
        at={curves.at}
        series={series}
        format={drawn.format}
        filled={drawn.filled ?? false}
      />
    </Panel>
  );
}
