// Collects the lines of a log: each once, in order, and no more than a page can show.

export interface LogLine {
  number: number;
  at: string;
  stream: string;
  text: string;
}

export const LINES_KEPT_MAX = 2000;

/** Appends lines, except those that are there already. */
export function appendLines(before: readonly LogLine[], came: readonly LogLine[]): readonly LogLine[] {
  let last = before.at(-1)?.number ?? -1;
  const fresh: LogLine[] = [];
  for (const line of came) {
    if (line.number <= last) continue;
    fresh.push(line);
    last = line.number;
  }
  return fresh.length === 0 ? before : [...before, ...fresh].slice(-LINES_KEPT_MAX);
}

/** The log also has lines of the worker, about what it does with the engine. */
export type StreamFilter = "all" | "stdout" | "stderr" | "worker";

export function filterLines(
  lines: readonly LogLine[],
  filter: StreamFilter,
  term: string,
): readonly LogLine[] {
  const searched = term.trim().toLowerCase();
  if (filter === "all" && !searched) return lines;
  return lines.filter(
    (line) => (filter === "all" || line.stream === filter) && line.text.toLowerCase().includes(searched),
  );
}

type Severity = "error" | "warning" | "plain";

// Engines print everything to stderr, so the stream says nothing about a line. Some put a letter for the level in front.
const LEVEL = /^(?:\[?[\d:.,TZ-]+\]?\s+)?\[?([EWF])\]?[\s:]/;
const HARMLESS_WORDS =
  /\b(?:no|0|without) (?:errors?|warnings?|failures?)\b|\b(?:errors?|warnings?|failed)\s*[:=]\s*(?:0|none|false)\b/i;
const ERROR =
  /\b(?:error|fatal|critical|panic|traceback|exception|segmentation fault|core dumped|out of memory|failed|aborted)\b|\w+(?:Error|Exception)\b/i;
const WARNING = /\b(?:warn|warning|deprecated)\b/i;

/** The severity of a line, by its text. */
export function findSeverity(text: string): Severity {
  const level = LEVEL.exec(text)?.[1];
  if (level) return level === "W" ? "warning" : "error";
  if (HARMLESS_WORDS.test(text)) return "plain";
  if (ERROR.test(text)) return "error";
  return WARNING.test(text) ? "warning" : "plain";
}

/** Whether the view is near enough to the end to stay there when lines arrive. */
export function isAtEnd(box: { scrollTop: number; scrollHeight: number; clientHeight: number }): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < 24;
}

/** The address of the whole log as a file, which the browser saves. */
export const downloadAddress = (node: string, key: string): string =>
  `/api/nodes/${encodeURIComponent(node)}/backend-logs/${encodeURIComponent(key)}/download`;
