// The output of one process, line by line, for as long as it is looked at. After a cut, and after a time in which the
// node was away, it goes on after the last line that came.
import { useEffect, useState } from "react";
import { whileShown } from "@/live/share";
import { type Connection, type Frame, Stream } from "@/live/stream";
import { type Line, withLines } from "@/pages/nodes/one/loglines";

export interface Log {
  lines: readonly Line[];
  state: "opening" | "open" | "away";
}

const NOTHING: Log = { lines: [], state: "opening" };
const STATES: Record<Connection, Log["state"]> = {
  connecting: "opening",
  open: "open",
  silent: "away",
  lost: "away",
};

export function useLog(node: string, key: string): Log {
  const [log, setLog] = useState(NOTHING);
  useEffect(() => {
    let frame: number | undefined;
    let waiting: Line[] = [];

    const show = () => {
      frame = undefined;
      const came = waiting;
      waiting = [];
      setLog((before) => ({ ...before, lines: withLines(before.lines, came) }));
    };
    const take = ({ kind, data }: Frame) => {
      // The log itself has begun anew, and its numbers with it.
      if (kind === "reset") {
        waiting = [];
        setLog((before) => ({ ...before, lines: [] }));
      }
      if (kind !== "line") return;
      waiting.push((data as { data: Line }).data);
      frame ??= window.requestAnimationFrame(show);
    };
    const stream = new Stream(
      {
        onFrame: take,
        onConnection: (connection) => setLog((before) => ({ ...before, state: STATES[connection] })),
        onRefused: () => undefined,
      },
      ["line"],
      `/api/nodes/${encodeURIComponent(node)}/backend-logs/${encodeURIComponent(key)}/stream`,
    );
    setLog(NOTHING);
    const close = whileShown(stream);
    return () => {
      close();
      if (frame !== undefined) window.cancelAnimationFrame(frame);
    };
  }, [node, key]);
  return log;
}
