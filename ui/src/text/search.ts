// Parses search parameters of the page's URL: an invalid or absent value becomes the default.

type Search = Record<string, unknown>;

export function parseChoice<T extends string>(
  search: Search,
  name: string,
  allowed: readonly T[],
): T | undefined {
  const value = search[name];
  return allowed.find((word) => word === value);
}

export function parseText(search: Search, name: string, max = 200): string | undefined {
  const value = search[name];
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value.slice(0, max) : undefined;
}

export function parseFlag(search: Search, name: string): true | undefined {
  return search[name] === true || search[name] === "true" || search[name] === 1 ? true : undefined;
}

/** A day such as `2026-11-01`. */
export function parseDay(search: Search, name: string): string | undefined {
  const value = search[name];
  const isDay = typeof value === "string" && /^\d{4}-\d{2}-\d{2}$/.test(value);
  return isDay && !Number.isNaN(Date.parse(value)) ? value : undefined;
}

/** Drops undefined search parameters; a link may leave any of them out. */
export function dropUndefined<T extends object>(search: T): Partial<T> {
  return search;
}
