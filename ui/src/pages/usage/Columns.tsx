// Stacked columns over time. Plain boxes: they are sharp at every width, and each says its numbers.
import type { Period } from "@/pages/usage/question";
import { type Layer, REST, topOf } from "@/pages/usage/sums";
import { count, dayOf, minuteOfDay, plural } from "@/text/format";

interface ColumnsProps {
  layers: Layer[];
  period: Period;
  measure: string;
}

const LABELS = 6;

export function Columns({ layers, period, measure }: ColumnsProps) {
  const top = topOf(layers, period.steps.length);
  const sums = period.steps.map((_, place) =>
    layers.reduce((sum, layer) => sum + (layer.values[place] ?? 0), 0),
  );
  const all = sums.reduce((sum, value) => sum + value, 0);
  return (
    <figure className="usage-figure">
      <div className="usage-plot">
        <div className="usage-scale number small faint" aria-hidden="true">
          <span>{count(top)}</span>
          <span>{count(top / 2)}</span>
          <span>0</span>
        </div>
        <div
          className="usage-columns"
          role="img"
          aria-label={`${plural(all, measure.slice(0, -1))} in this time, at most ${count(Math.max(...sums))} in one ${period.step}.`}
        >
          {period.steps.map((step, place) => (
            <div
              key={step}
              className="usage-column"
              title={`${when(step, period.step)}: ${told(layers, place, measure)}`}
            >
              {layers.map((layer, at) => (
                <div
                  key={layer.id}
                  className={`usage-part usage-${colourOf(layer, at)}`}
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
            <span className={`usage-swatch usage-${colourOf(layer, at)}`} aria-hidden="true" />
            {layer.name}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function colourOf(layer: Layer, place: number): string {
  return layer.id === REST ? "rest" : String((place % 5) + 1);
}

function told(layers: Layer[], place: number, measure: string): string {
  const parts = layers.filter((layer) => (layer.values[place] ?? 0) > 0);
  if (parts.length === 0) return `no ${measure}`;
  return parts.map((layer) => `${layer.name} ${count(layer.values[place])}`).join(", ");
}

/** Days are those of UTC, and are told as such. */
function when(at: number, step: "hour" | "day"): string {
  return step === "hour" ? minuteOfDay(at) : dayOf(at, true);
}
