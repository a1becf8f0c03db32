// Follows the output of one process, line by line, while it is shown. After an interruption, also one in which the
// node was unreachable, it continues after the last line that arrived.
import { useEffect, useState } from "react";
import { type ConnectionStatus, EventStream, type StreamFrame } from "@/live/stream";
import { runWhileVisible } from "@/live/tabStream";
import { appendLines, type LogLine } from "@/pages/nodes/one/logLines";

export interface LogState {
  lines: readonly LogLine[];
  state: "opening" | "open" | "away";
}

const NOTHING: LogState = { lines: [], state: "opening" };
const STATES: Record<ConnectionStatus, LogState["state"]> = {
  connecting: "opening",
  open: "open",
  silent: "away",
  lost: "away",
};

export function useLog(node: string, key: string): LogState {
  const [log, setLog] = useState(NOTHING);
  useEffect(() => {
    let frame: number | undefined;
    let waiting: LogLine[] = [];

    const show = () => {
      frame = undefined;
      const came = waiting;
      waiting = [];
      setLog((before) => ({ ...before, lines: appendLines(before.lines, came) }));
    };
    const take = ({ kind, data }: StreamFrame) => {
      // The log has started over, and so have its line numbers.
      if (kind === "reset") {
        waiting = [];
        setLog((before) => ({ ...before, lines: [] }));
      }
      if (kind !== "line") return;
      waiting.push((data as { data: LogLine }).data);
      frame ??= window.requestAnimationFrame(show);
    };
    const stream = new EventStream(
      {
        onFrame: take,
        onConnection: (connection) => setLog((before) => ({ ...before, state: STATES[connection] })),
        onRefused: () => undefined,
      },
      ["line"],
      `/api/nodes/${encodeURIComponent(node)}/backend-logs/${encodeURIComponent(key)}/stream`,
    );
    setLog(NOTHING);
    const close = runWhileVisible(stream);
    return () => {
      close();
      if (frame !== undefined) window.cancelAnimationFrame(frame);
    };
  }, [node, key]);
  return log;
}
