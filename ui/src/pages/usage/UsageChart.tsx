// Stacked columns over time, as plain elements: sharp at every width, and each with its numbers as text.
import type { Period } from "@/pages/usage/usageQuery";
import { type ChartLayer, findTop, REST } from "@/pages/usage/usageSums";
import { dayOf, formatCount, minuteOfDay, plural } from "@/text/format";

interface UsageChartProps {
  layers: ChartLayer[];
  period: Period;
  measure: string;
}

const LABELS = 6;

export function UsageChart({ layers, period, measure }: UsageChartProps) {
  const top = findTop(layers, period.steps.length);
  const sums = period.steps.map((_, place) =>
    layers.reduce((sum, layer) => sum + (layer.values[place] ?? 0), 0),
  );
  const all = sums.reduce((sum, value) => sum + value, 0);
  return (
    <figure className="usage-figure">
      <div className="usage-plot">
        <div className="usage-scale number small faint" aria-hidden="true">
          <span>{formatCount(top)}</span>
          <span>{formatCount(top / 2)}</span>
          <span>0</span>
        </div>
        <div
          className="usage-columns"
          role="img"
          aria-label={`${plural(all, measure.slice(0, -1))} in this period, at most ${formatCount(Math.max(...sums))} in one ${period.step}.`}
        >
          {period.steps.map((step, place) => (
            <div
              key={step}
              className="usage-column"
              title={`${when(step, period.step)}: ${describeColumn(layers, place, measure)}`}
            >
              {layers.map((layer, at) => (
                <div
                  key={layer.id}
                  className={`usage-part usage-${pickColour(layer, at)}`}
                  style={{ height: `${((layer.values[place] ?? 0) / top) * 100}%` }}
                />
              ))}
            </div>
          ))}
        </div>
        <div className="usage-times number small faint" aria-hidden="true">
          {period.steps.map((step, place) => (
            <span key={step}>
              {place % Math.ceil(period.steps.length / LABELS) === 0 && when(step, period.step)}
            </span>
          ))}
        </div>
      </div>
      <figcaption className="row usage-legend">
        {layers.map((layer, at) => (
          <span key={layer.id} className="row small">
            <span className={`usage-swatch usage-${pickColour(layer, at)}`} aria-hidden="true" />
            {layer.name}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function pickColour(layer: ChartLayer, place: number): string {
  return layer.id === REST ? "rest" : String((place % 5) + 1);
}

function describeColumn(layers: ChartLayer[], place: number, measure: string): string {
  const parts = layers.filter((layer) => (layer.values[place] ?? 0) > 0);
  if (parts.length === 0) return `no ${measure}`;
  return parts.map((layer) => `${layer.name} ${formatCount(layer.values[place])}`).join(", ");
}

/** Days are those of UTC, and the label says so. */
function when(at: number, step: "hour" | "day"): string {
  return step === "hour" ? minuteOfDay(at) : dayOf(at, true);
}
