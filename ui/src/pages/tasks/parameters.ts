// Converts parameters between the fields of a form and what is sent. Pure.

/** A value as a text that can be edited. */
export function formatParameter(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A text as a value: a list or an object in JSON is sent as such, everything else as the text. */
export function parseParameter(text: string): unknown {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed)) return text;
  try {
    return JSON.parse(trimmed);
  } catch {
    return text;
  }
}

/**
 * The parameters of fields. An empty field is left out, so that the `default` of a template applies; a value that was
 * not edited keeps its type.
 */
export function readParameters(
  fields: Readonly<Record<string, string>>,
  before: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const filled = Object.entries(fields).filter(([, text]) => text !== "");
  return Object.fromEntries(
    filled.map(([name, text]) => [
      name,
      formatParameter(before[name]) === text ? before[name] : parseParameter(text),
    ]),
  );
}
