// The trace of a run as a waterfall: each call of the model and of a tool is a row with its time as a bar.
import { type CSSProperties, memo, type ReactNode, useState } from "react";
import { Icon, type IconName } from "@/kit/icons";
import {
  type ApprovalRow,
  computeSpan,
  formatValue,
  type ModelRow,
  type NoteRow,
  previewArguments,
  previewText,
  type ToolRow,
  type Trace,
  type TraceRow,
} from "@/pages/runs/trace";
import { useSeconds } from "@/pages/runs/useSeconds";
import { duration, formatCount, formatMoment } from "@/text/format";
import "@/pages/runs/waterfall.css";

export function Waterfall({ trace }: { trace: Trace }) {
  const now = useSeconds(!trace.isEnded);
  const start = trace.start ?? now;
  // Rows do not depend on the span: only this number changes while a run is open.
  return (
    <ol
      className="plain waterfall"
      aria-label="Trace"
      style={{ "--span": computeSpan(trace, now) } as CSSProperties}
    >
      {trace.rows.map((row) => (
        <Row key={row.seq} row={row} start={start} />
      ))}
    </ol>
  );
}

interface RowProps {
  row: TraceRow;
  start: number;
}

const Row = memo(function Row({ row, start }: RowProps) {
  switch (row.kind) {
    case "model":
      return <ModelCall row={row} start={start} />;
    case "tool":
      return <ToolCall row={row} start={start} />;
    case "approval":
      return <Approval row={row} start={start} />;
    case "note":
      return <Note row={row} start={start} />;
  }
});

function ModelCall({ row, start }: { row: ModelRow; start: number }) {
  const tokens = row.promptTokens + row.completionTokens;
  return (
    <Entry
      row={row}
      start={start}
      icon="playground"
      tone={row.isLost ? "failed" : "model"}
      name={`Model call ${row.step}`}
      preview={row.isLost ? "interrupted" : previewText(row)}
    >
      {(row.reasoning || row.content || row.isCut || tokens > 0) && (
        <>
          {row.reasoning && <TextBlock title="Reasoning" text={row.reasoning} />}
          {row.content && <TextBlock title="Text" text={row.content} />}
          {row.isCut && <p className="small soft">The trace reached its limit: further text was left out.</p>}
          {tokens > 0 && (
            <p className="small soft number">
              {formatCount(row.promptTokens)} tokens in, {formatCount(row.completionTokens)} out
              {row.isEstimated && ", estimated"}
            </p>
          )}
        </>
      )}
    </Entry>
  );
}

function ToolCall({ row, start }: { row: ToolRow; start: number }) {
  const args = formatValue(row.args);
  const result = formatValue(row.result);
  return (
    <Entry
      row={row}
      start={start}
      icon="settings"
      tone={row.isError || row.isLost ? "failed" : "tool"}
      name={row.name}
      preview={row.isLost ? "interrupted" : row.isError ? "failed" : previewArguments(row.args)}
      isImportant={row.isError}
    >
      {args && <TextBlock title="Arguments" text={args} isCode />}
      {result && <TextBlock title={row.isError ? "Error" : "Result"} text={result} isCode />}
    </Entry>
  );
}

function Approval({ row, start }: { row: ApprovalRow; start: number }) {
  const args = formatValue(row.args);
  return (
    <Entry
      row={row}
      start={start}
      icon="users"
      // The form above the trace shows the same.
      opensItself={false}
      tone={row.approved === false ? "failed" : "wait"}
      name={`Approval of ${row.name}`}
      preview={
        row.approved === null
          ? row.end === null
            ? "waiting"
            : "not decided"
          : row.approved
            ? "approved"
            : "refused"
      }
    >
      {args && <TextBlock title="Arguments" text={args} isCode />}
      {row.reason && <TextBlock title="Reason" text={row.reason} />}
    </Entry>
  );
}

const NOTE_ICONS: Record<NoteRow["type"], IconName> = {
  status: "info",
  compacted: "info",
  retried: "again",
  end: "check",
};

function Note({ row, start }: { row: NoteRow; start: number }) {
  return (
    <Entry
      row={row}
      start={start}
      icon={row.isBad && row.type !== "retried" ? "warn" : NOTE_ICONS[row.type]}
      tone={row.isBad ? "failed" : "note"}
      name={row.text}
      preview=""
      isImportant={row.isBad}
    >
      {row.detail && <TextBlock title="Details" text={row.detail} />}
    </Entry>
  );
}

interface EntryProps {
  row: TraceRow;
  start: number;
  icon: IconName;
  tone: "model" | "tool" | "wait" | "note" | "failed";
  name: string;
  preview: string;
  /** Whether it is shown in full from the beginning. */
  isImportant?: boolean;
  /** Whether it is shown in full while it is open. */
  opensItself?: boolean;
  /** What the row shows in full; without anything it cannot be opened. */
  children: ReactNode;
}

function Entry({
  row,
  start,
  icon,
  tone,
  name,
  preview,
  isImportant = false,
  opensItself = true,
  children,
}: EntryProps) {
  const [chosen, choose] = useState<boolean | null>(null);
  // What was open while it ran stays open: text that is being read does not disappear.
  const [wasOpen, setWasOpen] = useState(row.end === null);
  if (row.end === null && !wasOpen) setWasOpen(true);
  const isOpen = chosen ?? (isImportant || (opensItself && wasOpen));
  const head = (
    <>
      <span className="waterfall-what">
        <Icon name={icon} size={14} />
        <span className="waterfall-name">{name}</span>
        {preview && <span className="small faint cut">{preview}</span>}
      </span>
      <span className="waterfall-track" aria-hidden="true">
        <span className="waterfall-bar" style={placeBar(row, start)} />
      </span>
      <time className="number small waterfall-time" title={formatMoment(row.start)}>
        {row.kind !== "note" && <Took row={row} />}
      </time>
    </>
  );
  const hasBody = Array.isArray(children) ? children.some(Boolean) : Boolean(children);
  if (!hasBody) {
    return (
      <li className={`waterfall-row ${tone}`}>
        <div className="waterfall-head">{head}</div>
      </li>
    );
  }
  return (
    <li className={`waterfall-row ${tone}`}>
      <button type="button" className="waterfall-head" aria-expanded={isOpen} onClick={() => choose(!isOpen)}>
        {head}
      </button>
      {isOpen && <div className="waterfall-body">{children}</div>}
    </li>
  );
}

/** A bar that is open ends where the span does, so it grows without being drawn again. */
function placeBar({ start: from, end }: TraceRow, start: number): CSSProperties {
  const begin = { "--from": Math.max(0, from - start) } as CSSProperties;
  return end === null ? begin : ({ ...begin, "--to": Math.max(0, end - start) } as CSSProperties);
}

function Took({ row }: { row: TraceRow }) {
  const now = useSeconds(row.end === null);
  const end = row.end ?? Math.max(now, row.start);
  return duration((end - row.start) / 1000);
}

function TextBlock({ title, text, isCode = false }: { title: string; text: string; isCode?: boolean }) {
  return (
    <div className="waterfall-text">
      <h4>{title}</h4>
      {isCode ? <pre>{text}</pre> : <p>{text}</p>}
    </div>
  );
}
