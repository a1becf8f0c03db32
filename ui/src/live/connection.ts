// The state of the connection to the stream. While the connection is lost, queries poll every few seconds instead.
import { useSyncExternalStore } from "react";
import type { ConnectionStatus } from "@/live/stream";

export interface ConnectionState {
  connection: ConnectionStatus;
  /** The time of the last frame of the frontend, in milliseconds; known while the connection is silent or lost. */
  since?: number;
}

const POLL_MS = 5000;
const watchers = new Set<() => void>();
let present: ConnectionState = { connection: "connecting" };

export function setConnection(connection: ConnectionStatus, since?: number): void {
  if (connection === present.connection && since === present.since) return;
  present = since === undefined ? { connection } : { connection, since };
  for (const notify of watchers) notify();
}

export function useConnection(): ConnectionState {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => present,
  );
}

/** The `refetchInterval` of queries. */
export function pollWhenLost(): number | false {
  return present.connection === "lost" ? POLL_MS : false;
}
