// Shows a time as an age that is kept up to date: one clock for the whole page ticks every ten seconds.
import { useSyncExternalStore } from "react";
import { ago, formatMoment } from "@/text/format";

const TICK_MS = 10_000;
const watchers = new Set<() => void>();
let now = Date.now();
let timer: number | undefined;

function subscribe(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= window.setInterval(() => {
    now = Date.now();
    for (const notify of watchers) notify();
  }, TICK_MS);
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

export function RelativeTime({ at }: { at: string | null | undefined }) {
  const moment = useSyncExternalStore(subscribe, () => now);
  if (!at) return <span className="faint">never</span>;
  return (
    <time dateTime={at} title={formatMoment(at)}>
      {ago(at, Math.max(moment, Date.now()))}
    </time>
  );
}
