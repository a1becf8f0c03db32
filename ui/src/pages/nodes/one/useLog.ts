// The output of one process, line by line, for as long as it is looked at. A stream that ends is opened again: the
// browser does it after a cut, and this does it after an answer that was no stream (a node that is away).
import { useEffect, useState } from "react";
import { type Line, withLines } from "@/pages/nodes/one/loglines";

export interface Log {
  lines: readonly Line[];
  state: "opening" | "open" | "away";
}

const AGAIN_MS = 3000;
const NOTHING: Log = { lines: [], state: "opening" };

export function useLog(node: string, key: string): Log {
  const [log, setLog] = useState(NOTHING);
  useEffect(() => {
    let source: EventSource | undefined;
    let again: number | undefined;
    let frame: number | undefined;
    let waiting: Line[] = [];

    const show = () => {
      frame = undefined;
      const came = waiting;
      waiting = [];
      setLog((before) => ({ ...before, lines: withLines(before.lines, came) }));
    };
    const open = () => {
      source = new EventSource(
        `/api/nodes/${encodeURIComponent(node)}/backend-logs/${encodeURIComponent(key)}/stream`,
      );
      source.addEventListener("hello", () => setLog((before) => ({ ...before, state: "open" })));
      source.addEventListener("line", (event: MessageEvent<string>) => {
        waiting.push((JSON.parse(event.data) as { data: Line }).data);
        frame ??= window.requestAnimationFrame(show);
      });
      source.addEventListener("error", () => {
        if (source?.readyState !== EventSource.CLOSED) return;
        setLog((before) => ({ ...before, state: "away" }));
        again = window.setTimeout(open, AGAIN_MS);
      });
    };
    setLog(NOTHING);
    open();
    return () => {
      source?.close();
      window.clearTimeout(again);
      if (frame !== undefined) window.cancelAnimationFrame(frame);
    };
  }, [node, key]);
  return log;
}
