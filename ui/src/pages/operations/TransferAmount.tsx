// Shows transferred bytes, rate and time left. Unknown values are left out.
import type { TransferRate } from "@/live/transferRates";
import { bytesOf, duration, rate, UNKNOWN } from "@/text/format";

export function TransferAmount({
  current,
  total,
  pace,
}: {
  current: number | null | undefined;
  total: number | null | undefined;
  pace: TransferRate;
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
