// Lines over time, drawn by uPlot. Loaded when a page first shows one: `kit/chart` is not part of the first script.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
  label: string;
  values: (number | null)[];
}

export interface ChartProps {
  title: string;
  /** Unix seconds. */
  at: number[];
  series: Series[];
  format: (value: number) => string;
  height?: number;
  /** Draw under the first line as an area. */
  filled?: boolean;
}

const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5"];

export default function Chart({ title, at, series, format, height = 150, filled = false }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const formatter = useRef(format);
  formatter.current = format;
  const names = series.map((line) => line.label).join("\n");

  // The plot itself is made once for a set of lines; new values are handed to it below.
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      options(names.split("\n"), element.clientWidth, height, filled, formatter),
      [[]],
      element,
    );
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const night = window.matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => made.redraw();
    night.addEventListener("change", redraw);
    return () => {
      night.removeEventListener("change", redraw);
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, height, filled]);

  useEffect(() => {
    plot.current?.setData([at, ...series.map((line) => line.values)] as uPlot.AlignedData);
  }, [at, series]);

  const latest = series.map((line) => `${line.label}: ${told(line.values.at(-1), format)}`).join(", ");
  return <div ref={box} className="chart" role="img" aria-label={`${title}. Now ${latest}.`} />;
}

function told(value: number | null | undefined, format: (value: number) => string): string {
  return value == null ? "not known" : format(value);
}

const TIMES = { hour: "2-digit", minute: "2-digit" } as const;
const DAYS = { month: "short", day: "numeric" } as const;
const DAY_AND_A_HALF_S = 36 * 3600;

/** A moment on an axis: its time, or its day if the axis is of days. */
function moment(at: number, rangeS: number, isExact = false): string {
  const date = new Date(at * 1000);
  if (isExact) return date.toLocaleString(undefined, { ...DAYS, ...TIMES, second: "2-digit" });
  return date.toLocaleString(undefined, rangeS > DAY_AND_A_HALF_S ? DAYS : TIMES);
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** `light-dark()` has to be resolved by an element: a canvas does not know it. */
const resolved = (name: string) => () => {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value || colour(name);
};

function options(
  labels: string[],
  width: number,
  height: number,
  filled: boolean,
  format: { current: (value: number) => string },
): uPlot.Options {
  const grid = { stroke: resolved("--line"), width: 1 };
  const font = `11px ${colour("--mono")}`;
  return {
    width,
    height,
    cursor: { y: false, points: { size: 6 } },
    legend: { live: true },
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), high ? high * 1.1 : 1] } },
    axes: [
      {
        stroke: resolved("--ink-faint"),
        grid: { show: false },
        ticks: grid,
        font,
        space: 80,
        values: (_, ticks) => ticks.map((tick) => moment(tick, (ticks.at(-1) ?? 0) - (ticks[0] ?? 0))),
      },
      {
        stroke: resolved("--ink-faint"),
        grid,
        ticks: { show: false },
        font,
        size: 62,
        values: (_, ticks) => ticks.map((tick) => format.current(tick)),
      },
    ],
    series: [
      { label: "At", value: (_: uPlot, at: number | null) => (at == null ? "now" : moment(at, 0, true)) },
      ...labels.map((label, place) => ({
        label,
        stroke: resolved(COLOURS[place % COLOURS.length] ?? "--ink"),
        width: 1.5,
        points: { show: false },
        ...(filled && place === 0
          ? { fill: () => `${resolved("--series-1")()}`.replace("rgb(", "rgba(").replace(")", ", 0.14)") }
          : {}),
        // While nobody points at a moment, the legend tells the last one.
        value: (plot: uPlot, value: number | null, line: number, at: number | null) =>
          told(at == null ? plot.data[line]?.at(-1) : value, format.current),
      })),
    ],
  };
}
