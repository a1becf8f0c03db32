// Throughput, times, load and memory, as they go.
import { Chart } from "@/kit/chart";
import { Panel } from "@/kit/Panel";
import type { Curves, Name } from "@/pages/overview/curves";
import { useCurves } from "@/pages/overview/useCurves";
import { bytes, count, duration, UNKNOWN } from "@/text/format";

interface Drawn {
  title: string;
  note: string;
  lines: [string, Name][];
  format: (value: number) => string;
  filled?: boolean;
}

const TOKENS: Drawn = {
  title: "Tokens per second",
  note: "As they are written, of all models.",
  lines: [["tokens/s", "tokens_per_s"]],
  format: count,
  filled: true,
};
const FIRST: Drawn = {
  title: "Time to the first token",
  note: "p50 and p95 over the last minute.",
  lines: [
    ["p50", "first_byte_p50_s"],
    ["p95", "first_byte_p95_s"],
  ],
  format: duration,
};
const REQUESTS: Drawn = {
  title: "Requests",
  note: "Being answered, and waiting for a replica.",
  lines: [
    ["in flight", "in_flight"],
    ["waiting", "waiting"],
  ],
  format: count,
};
const VRAM: Drawn = {
  title: "GPU memory",
  note: "In use, on all nodes that can be reached.",
  lines: [
    ["used", "vram_used"],
    ["total", "vram_total"],
  ],
  format: bytes,
  filled: true,
};
const RATES: Drawn = {
  title: "Requests per second",
  note: "And those that failed without the client's fault.",
  lines: [
    ["requests/s", "requests_per_s"],
    ["errors/s", "errors_per_s"],
  ],
  format: count,
};

export function Charts() {
  const curves = useCurves();
  // A fleet without GPUs has no such curve.
  const hasVram = curves.series.vram_total.some((total) => total);
  return (
    <div className="overview-charts">
      {[TOKENS, FIRST, REQUESTS, hasVram ? VRAM : RATES].map((drawn) => (
        <Curve key={drawn.title} drawn={drawn} curves={curves} />
      ))}
    </div>
  );
}

function Curve({ drawn, curves }: { drawn: Drawn; curves: Curves }) {
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
