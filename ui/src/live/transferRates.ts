// Computes the transfer rate and the time left from the readings of the last five seconds; null while unknown.

interface Sample {
  at: number;
  bytes: number;
}

export interface TransferRate {
  bytesPerS: number | null;
  secondsLeft: number | null;
}

const WINDOW_MS = 5000;
const UNKNOWN: TransferRate = { bytesPerS: null, secondsLeft: null };

export class TransferRateMeter {
  private samples = new Map<string, Sample[]>();

  /** Records a reading and returns the rate. A count that goes backwards starts a new measurement. */
  addReading(
    id: string,
    current: number | null | undefined,
    total: number | null | undefined,
    now = Date.now(),
  ): TransferRate {
    if (current == null) return UNKNOWN;
    const previous = this.samples.get(id) ?? [];
    const last = previous.at(-1);
    const kept =
      last && current < last.bytes ? [] : previous.filter((sample) => now - sample.at <= WINDOW_MS);
    if (kept.at(-1)?.bytes !== current || kept.length === 0) kept.push({ at: now, bytes: current });
    this.samples.set(id, kept);
    const first = kept[0];
    if (!first || now <= first.at || current <= first.bytes) return UNKNOWN;
    const bytesPerS = ((current - first.bytes) / (now - first.at)) * 1000;
    return {
      bytesPerS,
      secondsLeft: total == null || total < current ? null : (total - current) / bytesPerS,
    };
  }

  /** Forgets the readings of all transfers but `ids`. */
  keepOnly(ids: Iterable<string>): void {
    const active = new Set(ids);
    for (const id of this.samples.keys()) if (!active.has(id)) this.samples.delete(id);
  }
}
