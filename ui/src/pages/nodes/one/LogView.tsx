// The log lines of one process. The view stays at the end while lines arrive, until the user scrolls up.
import { useLayoutEffect, useRef, useState } from "react";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { Icon } from "@/kit/icons";
import { Pill } from "@/kit/status";
import {
  downloadAddress,
  filterLines,
  findSeverity,
  isAtEnd,
  type LogLine,
  type StreamFilter,
} from "@/pages/nodes/one/logLines";
import { type LogState, useLog } from "@/pages/nodes/one/useLog";
import { plural, timeOfDay } from "@/text/format";

const STREAMS: { value: StreamFilter; label: string }[] = [
  { value: "all", label: "All" },
  { value: "stdout", label: "stdout" },
  { value: "stderr", label: "stderr" },
  { value: "worker", label: "worker" },
];

export default function LogView({ node, process }: { node: NodeOut; process: string }) {
  const log = useLog(node.id, process);
  const [stream, setStream] = useState<StreamFilter>("all");
  const [term, setTerm] = useState("");
  const lines = filterLines(log.lines, stream, term);
  return (
    <div className="stack tight">
      <div className="row">
        <SegmentedControl label="Stream" value={stream} options={STREAMS} onChange={setStream} />
        <SearchField label="Filter lines" value={term} onChange={setTerm} />
        <a className="button plain small-button" href={downloadAddress(node.name, process)} download>
          <Icon name="download" />
          <span>Download {process}</span>
        </a>
      </div>
      <LogLines label={`Output of ${process}`} lines={lines} empty={emptyWord(log)} />
      <div className="row small soft">
        <LogStatePill log={log} />
        <span className="number">
          {lines.length === log.lines.length
            ? plural(lines.length, "line")
            : `${lines.length} of ${plural(log.lines.length, "line")}`}
        </span>
      </div>
    </div>
  );
}

function LogStatePill({ log }: { log: LogState }) {
  if (log.state === "open") return <Pill tone="good">following</Pill>;
  if (log.state === "opening") return <Pill tone="busy">connecting</Pill>;
  return <Pill tone="warn">The node does not respond. Retrying.</Pill>;
}

function emptyWord(log: LogState): string {
  return log.lines.length > 0 ? "No lines match this filter." : "No output yet.";
}

function LogLines({ label, lines, empty }: { label: string; lines: readonly LogLine[]; empty: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [follows, setFollows] = useState(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever lines have come
  useLayoutEffect(() => {
    const element = box.current;
    if (element && follows) element.scrollTop = element.scrollHeight;
  }, [lines, follows]);
  return (
    <div className="node-log">
      <div
        ref={box}
        className="node-lines"
        role="log"
        aria-live="off"
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
        tabIndex={0}
        onScroll={(event) => setFollows(isAtEnd(event.currentTarget))}
      >
        {lines.length === 0 && <p className="soft">{empty}</p>}
        {lines.map((line) => (
          <div key={line.number} className={`node-${line.stream} node-${findSeverity(line.text)}`}>
            <time dateTime={line.at}>{timeOfDay(line.at)}</time>
            <small>{line.stream}</small>
            <span>{line.text}</span>
          </div>
        ))}
      </div>
      {!follows && (
        <div className="node-to-end">
          <Button small icon="down" onClick={() => setFollows(true)}>
            Go to the end
          </Button>
        </div>
      )}
    </div>
  );
}
