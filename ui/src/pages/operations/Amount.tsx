// Bytes, how fast they come, how long it will take. What is not known is left out.
import type { Pace } from "@/live/rates";
import { bytesOf, duration, rate, UNKNOWN } from "@/text/format";

export function Amount({
  current,
  total,
  pace,
}: {
  current: number | null | undefined;
  total: number | null | undefined;
  pace: Pace;
}) {
  if (current == null) return null;
  const left = duration(pace.secondsLeft);
  const parts = [
    bytesOf(current, total),
    pace.bytesPerS != null && rate(pace.bytesPerS),
    left !== UNKNOWN && `${left} left`,
  ].filter(Boolean);
  return <span className="number operations-amount">{parts.join(" · ")}</span>;
}
