// How fast bytes come and how long they will take, from the last five seconds. Nothing is said while it is not known.

interface Sample {
  at: number;
  bytes: number;
}

export interface Pace {
  bytesPerS: number | null;
  secondsLeft: number | null;
}

const WINDOW_MS = 5000;
const UNKNOWN: Pace = { bytesPerS: null, secondsLeft: null };

export class Rates {
  private samples = new Map<string, Sample[]>();

  /** Takes a reading and tells the pace; bytes that go backwards begin anew. */
  see(
    id: string,
    current: number | null | undefined,
    total: number | null | undefined,
    now = Date.now(),
  ): Pace {
    if (current == null) return UNKNOWN;
    const before = this.samples.get(id) ?? [];
    const last = before.at(-1);
    const kept = last && current < last.bytes ? [] : before.filter((sample) => now - sample.at <= WINDOW_MS);
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

  /** Forgets what is no longer under way. */
  keep(ids: Iterable<string>): void {
    const wanted = new Set(ids);
    for (const id of this.samples.keys()) if (!wanted.has(id)) this.samples.delete(id);
  }
}
