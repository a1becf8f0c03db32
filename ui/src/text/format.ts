// Formats numbers, sizes and times. An unknown value is shown as an en dash, never as 0.

export const UNKNOWN = "–";

/** The page speaks English, so dates and ages do too: in the reader's own English, else with the day before the month. */
export function pickLocale(languages: readonly string[]): string {
  return languages.find((language) => /^en(-|$)/i.test(language)) ?? "en-GB";
}

const LOCALE = pickLocale(typeof navigator === "undefined" ? [] : navigator.languages);
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

/** `3.1 of 24 GiB`: the unit is written once. */
export function bytesOf(part: number | null | undefined, whole: number | null | undefined): string {
  if (whole == null || part == null) return bytes(part ?? whole);
  const [size = "", unit = ""] = bytes(part).split(" ");
  const all = bytes(whole);
  return all.endsWith(` ${unit}`) && unit ? `${size} of ${all}` : `${bytes(part)} of ${all}`;
}

export function rate(bytesPerSecond: number | null | undefined): string {
  return bytesPerSecond == null ? UNKNOWN : `${bytes(bytesPerSecond)}/s`;
}

/** Formats a duration in seconds. More than a day, or a negative duration, is not shown as a number. */
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
const relative = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto" });

/** `3 minutes ago`. */
export function ago(at: string | null | undefined, now: number = Date.now()): string {
  if (!at) return "never";
  const seconds = (Date.parse(at) - now) / 1000;
  if (Number.isNaN(seconds)) return UNKNOWN;
  if (Math.abs(seconds) < 5) return "just now";
  const [, unit] = AGES.find(([below]) => Math.abs(seconds) < below) ?? [0, "year" as const];
  return relative.format(Math.trunc(seconds / (SECONDS[unit] ?? 1)), unit);
}

const moments = new Intl.DateTimeFormat(LOCALE, {
  dateStyle: "medium",
  timeStyle: "medium",
  hourCycle: "h23",
});
const times = new Intl.DateTimeFormat(LOCALE, { timeStyle: "medium", hourCycle: "h23" });
const minutes = new Intl.DateTimeFormat(LOCALE, { timeStyle: "short", hourCycle: "h23" });
const days = new Intl.DateTimeFormat(LOCALE, { month: "short", day: "numeric" });
const utcDays = new Intl.DateTimeFormat(LOCALE, { month: "short", day: "numeric", timeZone: "UTC" });

/** Day and time, in the reader's time zone. */
export function formatMoment(at: string | number): string {
  return moments.format(new Date(at));
}

/** `15:04:05`, in the reader's time zone. */
export function timeOfDay(at: string | number): string {
  return times.format(new Date(at));
}

/** `15:04`, in the reader's time zone. */
export function minuteOfDay(at: string | number): string {
  return minutes.format(new Date(at));
}

/** `16 Nov`. Days of usage are those of UTC, all others those of the reader. */
export function dayOf(at: string | number, isUtc = false): string {
  return (isUtc ? utcDays : days).format(new Date(at));
}

const UTC_TIME = /\b(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2}) UTC\b/g;

/** Sentences of the server have times in UTC; the page shows all times in the zone of its reader. */
export function withLocalTimes(sentence: string): string {
  return sentence.replace(UTC_TIME, (_, day: string, time: string) => formatMoment(`${day}T${time}Z`));
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const small = new Intl.NumberFormat("en", { maximumSignificantDigits: 2, maximumFractionDigits: 4 });

export function formatCount(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  if (Math.abs(value) < 1) return small.format(value);
  return Math.abs(value) >= 10_000 ? compact.format(value) : plain.format(value);
}

/** Whole percentages that add up to 100: the largest remainders are rounded up. All zero if there is nothing to share. */
export function roundShares(parts: readonly number[], whole: number): number[] {
  if (!(whole > 0)) return parts.map(() => 0);
  const exact = parts.map((part) => (part / whole) * 100);
  const floors = exact.map(Math.floor);
  // Rows that are not listed keep their share of the hundred.
  const listed = Math.round(exact.reduce((sum, share) => sum + share, 0));
  const missing = Math.min(100, listed) - floors.reduce((sum, share) => sum + share, 0);
  const byRemainder = exact
    .map((share, place) => ({ place, rest: share - Math.floor(share) }))
    .sort((one, other) => other.rest - one.rest || one.place - other.place)
    .slice(0, Math.max(0, missing));
  for (const { place } of byRemainder) floors[place] = (floors[place] ?? 0) + 1;
  return floors;
}

export function percent(value: number | null | undefined): string {
  return value == null ? UNKNOWN : `${Math.floor(value)} %`;
}

/** `1 node`, `2 nodes`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${formatCount(value)} ${value === 1 ? one : many}`;
}

/** `a, b and c`. */
export function joinWords(words: string[]): string {
  return new Intl.ListFormat("en", { style: "long", type: "conjunction" }).format(words);
}

function trimmed(digits: string): string {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}
