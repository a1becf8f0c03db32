// Whether this tab hears of changes. While it does not, queries are asked again every few seconds instead.
import { useSyncExternalStore } from "react";
import type { Connection } from "@/live/stream";

const POLL_MS = 5000;
const watchers = new Set<() => void>();
let present: Connection = "connecting";

export function setConnection(connection: Connection): void {
  if (connection === present) return;
  present = connection;
  for (const told of watchers) told();
}

export function useConnection(): Connection {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => present,
  );
}

/** For a query's `refetchInterval`. */
export function pollWhenLost(): number | false {
  return present === "lost" ? POLL_MS : false;
}
