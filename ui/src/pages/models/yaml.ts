// Writes a configuration as YAML, as `corral models export` does. Only the server parses YAML.

const INDENT = "  ";
/** Texts that need no quotes in YAML, apart from words of `OTHER`. */
const PLAIN = /^[A-Za-z_/][\w ./@+()\-:,']*$/;
/** A size or a duration: 320MiB, 10h. */
const MEASURE = /^[1-9]\d*(?:\.\d+)?[A-Za-z]{1,3}$/;
/** Words that YAML 1.1 takes for other things than text. */
const OTHER = /^(?:y|yes|n|no|true|false|on|off|null|nan|inf)$/i;

export function toYaml(value: Record<string, unknown>): string {
  return mapping(value, "").join("\n").concat("\n");
}

function mapping(value: Record<string, unknown>, indent: string): string[] {
  return Object.entries(value).flatMap(([key, item]) => under(`${indent}${scalar(key)}:`, item, indent));
}

/** Writes `head` with its value: on the same line if it is a scalar, below it if it has parts. */
function under(head: string, item: unknown, indent: string): string[] {
  const deeper = indent + INDENT;
  if (Array.isArray(item)) return item.length ? [head, ...list(item, deeper)] : [`${head} []`];
  if (isMapping(item)) return Object.keys(item).length ? [head, ...mapping(item, deeper)] : [`${head} {}`];
  if (typeof item === "string" && isBlock(item)) return [`${head} ${mark(item)}`, ...lines(item, deeper)];
  return [`${head} ${scalar(item)}`];
}

function list(items: unknown[], indent: string): string[] {
  return items.flatMap((item) => {
    if (!isMapping(item) || Object.keys(item).length === 0) return under(`${indent}-`, item, indent);
    // The first key is written on the line of the dash.
    const [first = "", ...rest] = mapping(item, indent + INDENT);
    return [`${indent}- ${first.trimStart()}`, ...rest];
  });
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a text of several lines can be written as a YAML block without changing it. */
function isBlock(text: string): boolean {
  return (
    text.includes("\n") &&
    !text.startsWith(" ") &&
    !text.startsWith("\n") &&
    !text.endsWith("\n\n") &&
    text.split("\n").every((line) => line === line.trimEnd() && !/[^\P{C}\t]/u.test(line))
  );
}

const mark = (text: string) => (text.endsWith("\n") ? "|" : "|-");

function lines(text: string, indent: string): string[] {
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => (line ? indent + line : ""));
}

function scalar(value: unknown): string {
  if (typeof value !== "string") return value === undefined ? "null" : JSON.stringify(value);
  const isPlain =
    (PLAIN.test(value) || MEASURE.test(value)) &&
    !OTHER.test(value) &&
    !value.endsWith(" ") &&
    !value.includes(": ") &&
    !value.endsWith(":");
  // A JSON string is valid YAML.
  return isPlain ? value : JSON.stringify(value);
}
