// Lines over time, drawn by uPlot. Loaded when a page first shows one: `kit/chart` is not part of the first script.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import {
  BYTE_INCREMENTS,
  lastKnown,
  TIME_INCREMENTS,
  timeLabels,
  timeRange,
  valueRange,
} from "@/kit/chart/axes";
import { bytes, dayOf, timeOfDay } from "@/text/format";

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
  /** Whether the area under the first line is filled. */
  filled?: boolean;
  /** Whether no more values come, so that the last ones are not current. */
  ended?: boolean;
}

const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5"];

export default function Chart({
  title,
  at,
  series,
  format,
  height = 150,
  filled = false,
  ended = false,
}: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const formatter = useRef(format);
  formatter.current = format;
  const hasEnded = useRef(ended);
  hasEnded.current = ended;
  const names = series.map((line) => line.label).join("\n");

  // The plot is created once for a set of lines; new values are passed to it below.
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      options(names.split("\n"), { width: element.clientWidth, height }, filled, formatter, hasEnded),
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

  const last = lastKnown(series.map((line) => line.values));
  const latest = series.map((line) => `${line.label}: ${formatValue(line.values[last], format)}`).join(", ");
  const when = momentWords(at, last, ended);
  return (
    <div
      ref={box}
      className="chart"
      role="img"
      aria-label={`${title}. ${when === "now" ? "Now" : `Of ${when}`} ${latest}.`}
    />
  );
}

function formatValue(value: number | null | undefined, format: (value: number) => string): string {
  return value == null ? "unknown" : format(value);
}

/** The time of the values at this index: now, an earlier time, or unknown. */
function momentWords(at: ArrayLike<number>, place: number, hasEnded: boolean): string {
  if (!hasEnded && (place < 0 || place === at.length - 1)) return "now";
  return place < 0 ? "no data" : timeOfDay((at[place] ?? 0) * 1000);
}

/** The time under the pointer; without a pointer, that of the last known values. */
function formatMomentAt(plot: uPlot, at: number | null, hasEnded: boolean): string {
  if (at != null) return `${dayOf(at * 1000)} ${timeOfDay(at * 1000)}`;
  return momentWords(plot.data[0], lastKnown(plot.data.slice(1)), hasEnded);
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Resolves `light-dark()` with an element, because a canvas does not support it. */
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
  { width, height }: { width: number; height: number },
  filled: boolean,
  format: { current: (value: number) => string },
  hasEnded: { current: boolean },
): uPlot.Options {
  const isBytes = format.current === bytes;
  const grid = { stroke: resolved("--line"), width: 1 };
  const font = `11px ${colour("--mono")}`;
  return {
    width,
    height,
    cursor: { y: false, points: { size: 6 } },
    legend: { live: true },
    scales: {
      x: { range: (_, low, high) => timeRange(low, high) },
      y: { range: (_, low, high) => valueRange(low, high, isBytes) },
    },
    axes: [
      {
        stroke: resolved("--ink-faint"),
        grid: { show: false },
        ticks: grid,
        font,
        space: 90,
        incrs: TIME_INCREMENTS,
        values: (_plot, ticks, _axis, _space, increment) => timeLabels(ticks, increment),
      },
      {
        stroke: resolved("--ink-faint"),
        grid,
        ticks: { show: false },
        font,
        size: 62,
        ...(isBytes ? { incrs: BYTE_INCREMENTS } : {}),
        values: (_, ticks) => ticks.map((tick) => format.current(tick)),
      },
    ],
    series: [
      { label: "At", value: (plot: uPlot, at: number | null) => formatMomentAt(plot, at, hasEnded.current) },
      ...labels.map((label, place) => ({
        label,
        stroke: resolved(COLOURS[place % COLOURS.length] ?? "--ink"),
        width: 1.5,
        points: { show: false },
        ...(filled && place === 0
          ? { fill: () => `${resolved("--series-1")()}`.replace("rgb(", "rgba(").replace(")", ", 0.14)") }
          : {}),
        // Without a pointer over the chart, the legend shows the last values.
        value: (plot: uPlot, value: number | null, line: number, at: number | null) =>
          formatValue(at == null ? plot.data[line]?.[lastKnown(plot.data.slice(1))] : value, format.current),
      })),
    ],
  };
}
