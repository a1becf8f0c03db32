// Finds the line of the text that an error of the server is about.

/** The number of lines that `toFleetFile` puts before the text. */
const LINES_BEFORE = 2;
const IN_LINE = /in line (\d+)/;

/** Wraps the configuration into a fleet file with one model, because only `/api/fleet` can plan a change. */
export function toFleetFile(text: string): string {
  const lines = text.replace(/^---\s*\n/, "\n").split("\n");
  return `models:\n  -\n${lines.map((line) => (line.trim() ? `    ${line}` : "")).join("\n")}\n`;
}

/** The error with the line number of the text that the user sees. */
export function toOwnLines(message: string): string {
  return message
    .replace(IN_LINE, (_, line: string) => `in line ${Math.max(1, Number(line) - LINES_BEFORE)}`)
    .replace(/^The body: t/, "T");
}

/** The line of the problem, from 1; null if the error names none. */
export function findLine(text: string, message: string): number | null {
  const lines = text.split("\n");
  const line = IN_LINE.exec(message)?.[1];
  if (line) return Math.min(lines.length, Math.max(1, Number(line) - LINES_BEFORE));
  const parts = message.split(": ").slice(1);
  const file = parts.map((part) => /^file (\d+)$/.exec(part)?.[1]).find((number) => number);
  if (file) return itemLine(lines, "files", Number(file));
  const last = parts.at(-1) ?? "";
  const word = /^'([^']+)'/.exec(last)?.[1] ?? /^([\w.-]+)/.exec(last)?.[1];
  const section = parts.length > 1 ? keyLine(lines, parts[0] ?? "", 0, true) : null;
  return (word ? keyLine(lines, word, section ?? 0, section === null) : null) ?? section;
}

function keyLine(lines: string[], key: string, from: number, isTop: boolean): number | null {
  const found = lines.findIndex(
    (line, place) => place >= from && (isTop ? startsWith(line, key) : startsWith(line.trim(), key)),
  );
  return found < 0 ? null : found + 1;
}

function startsWith(line: string, key: string): boolean {
  return [`${key}:`, `"${key}":`, `'${key}':`].some((head) => line.startsWith(head));
}

function itemLine(lines: string[], section: string, number: number): number | null {
  const head = keyLine(lines, section, 0, true);
  if (head === null) return null;
  const dash = /^(\s*)- /.exec(lines[head] ?? "")?.[1] ?? "  ";
  let seen = 0;
  for (let place = head; place < lines.length; place += 1) {
    if (lines[place]?.startsWith(`${dash}- `)) seen += 1;
    if (seen === number) return place + 1;
  }
  return head;
}
