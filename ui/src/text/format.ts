// Numbers as people read them. What is not known is an en dash, never 0.

export const UNKNOWN = "–";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return UNKNOWN;
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${trimmed(size.toFixed(digits))} ${UNITS[unit]}`;
}

/** `3.1 of 24 GiB`: the unit is said once. */
export function bytesOf(part: number | null | undefined, whole: number | null | undefined): string {
  if (whole == null || part == null) return bytes(part ?? whole);
  const [size = "", unit = ""] = bytes(part).split(" ");
  const all = bytes(whole);
  return all.endsWith(` ${unit}`) && unit ? `${size} of ${all}` : `${bytes(part)} of ${all}`;
}

export function rate(bytesPerSecond: number | null | undefined): string {
  return bytesPerSecond == null ? UNKNOWN : `${bytes(bytesPerSecond)}/s`;
}

/** A duration in seconds. More than a day, or less than nothing, is not worth a number. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds) || seconds < 0 || seconds > 86_400) return UNKNOWN;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${trimmed(seconds.toFixed(1))} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const rest = minutes % 60;
  return rest ? `${Math.floor(minutes / 60)} h ${rest} min` : `${Math.floor(minutes / 60)} h`;
}

const AGES: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "second"],
  [3600, "minute"],
  [86_400, "hour"],
  [86_400 * 30, "day"],
  [86_400 * 365, "month"],
  [Number.POSITIVE_INFINITY, "year"],
];
const SECONDS: Partial<Record<Intl.RelativeTimeFormatUnit, number>> = {
  second: 1,
  minute: 60,
  hour: 3600,
  day: 86_400,
  month: 86_400 * 30,
  year: 86_400 * 365,
};
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** `3 minutes ago`. */
export function ago(at: string | null | undefined, now: number = Date.now()): string {
  if (!at) return "never";
  const seconds = (Date.parse(at) - now) / 1000;
  if (Number.isNaN(seconds)) return UNKNOWN;
  if (Math.abs(seconds) < 5) return "just now";
  const [, unit] = AGES.find(([below]) => Math.abs(seconds) < below) ?? [0, "year" as const];
  return relative.format(Math.trunc(seconds / (SECONDS[unit] ?? 1)), unit);
}

export function clock(at: string | number): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function timeOfDay(at: string | number): string {
  return new Date(at).toLocaleTimeString(undefined, { timeStyle: "medium" });
}

const UTC_TIME = /\b(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2}) UTC\b/g;

/** Sentences of the server have times in UTC; the page shows all times in the zone of its reader. */
export function withLocalTimes(sentence: string): string {
  return sentence.replace(UTC_TIME, (_, day: string, time: string) => clock(`${day}T${time}Z`));
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  return Math.abs(value) >= 10_000 ? compact.format(value) : plain.format(value);
}

export function percent(value: number | null | undefined): string {
  return value == null ? UNKNOWN : `${Math.floor(value)} %`;
}

/** `1 node`, `2 nodes`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `a, b and c`. */
export function list(words: string[]): string {
  return new Intl.ListFormat("en", { style: "long", type: "conjunction" }).format(words);
}

function trimmed(digits: string): string {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}
