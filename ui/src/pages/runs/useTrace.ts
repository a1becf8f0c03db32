// Follows the trace of a run from its beginning to its end. A hidden tab holds no connection; when it is shown again,
// the stream continues after the last entry that arrived.
import { useEffect, useState } from "react";
import type { RunEventOut, RunOut } from "@/api/schema";
import { type ConnectionStatus, EventStream, type StreamFrame } from "@/live/stream";
import { runWhileVisible } from "@/live/tabStream";
import { traceAddress } from "@/pages/runs/queries";
import { appendEvents, EMPTY_TRACE, TRACE_EVENTS, type Trace } from "@/pages/runs/trace";
import { isOpenRun } from "@/text/run";

export interface TraceState {
  trace: Trace;
  connection: ConnectionStatus;
}

const NOTHING: TraceState = { trace: EMPTY_TRACE, connection: "connecting" };
/** Entries after which the run itself has changed, not only its trace. */
const CHANGES_RUN = new Set([
  "step",
  "tool_call",
  "approval_requested",
  "approval_resolved",
  "retried",
  "end",
]);

/**
 * `onRunChanged` must be stable; it is called at most once for all entries of an animation frame.
 *
 * The server closes the stream behind the entry `end`, and so does the page: a browser would connect again. A run whose
 * worker reported its own loss begins once more behind that entry, and is followed again.
 */
export function useTrace(run: RunOut, isAdmin: boolean, onRunChanged: () => void): TraceState {
  const [state, setState] = useState(NOTHING);
  const { id } = run;
  const isRead = state.trace.lastSeq >= run.last_seq;
  const isOver = isRead && (state.trace.isEnded || !isOpenRun(run.state));
  useEffect(() => {
    if (isOver) return;
    let frame: number | undefined;
    let waiting: RunEventOut[] = [];

    const show = () => {
      frame = undefined;
      const came = waiting;
      waiting = [];
      setState((before) => ({ ...before, trace: appendEvents(before.trace, came) }));
      if (came.some((event) => CHANGES_RUN.has(event.type))) onRunChanged();
    };
    const take = ({ kind, data }: StreamFrame) => {
      if (kind === "hello") return;
      waiting.push(data as RunEventOut);
      frame ??= window.requestAnimationFrame(show);
    };
    const stream = new EventStream(
      {
        onFrame: take,
        onConnection: (connection) => setState((before) => ({ ...before, connection })),
        onRefused: onRunChanged,
      },
      TRACE_EVENTS,
      traceAddress(id, isAdmin),
    );
    const close = runWhileVisible(stream);
    return () => {
      close();
      if (frame !== undefined) window.cancelAnimationFrame(frame);
    };
  }, [id, isAdmin, isOver, onRunChanged]);
  return state;
}
