import { expect, test } from "vitest";
import {
  ago,
  bytes,
  bytesOf,
  duration,
  formatCount,
  formatMoment,
  joinWords,
  percent,
  pickLocale,
  plural,
  rate,
  roundShares,
  UNKNOWN,
  withLocalTimes,
} from "@/text/format";

test("bytes have three digits and a binary unit", () => {
  expect(bytes(0)).toBe("0 B");
  expect(bytes(1536)).toBe("1.5 KiB");
  expect(bytes(24 * 2 ** 30)).toBe("24 GiB");
  expect(bytes(25_769_803_776 - 2 ** 28)).toBe("23.8 GiB");
});

test("what is not known is a dash, and zero is zero", () => {
  expect(bytes(null)).toBe(UNKNOWN);
  expect(rate(undefined)).toBe(UNKNOWN);
  expect(percent(null)).toBe(UNKNOWN);
  expect(formatCount(0)).toBe("0");
  expect(duration(0)).toBe("0 ms");
});

test("counts below one keep two digits, so that the marks of a chart differ", () => {
  expect([0, 0.05, 0.1, 0.1234, 1.25, 12.34].map(formatCount)).toEqual([
    "0",
    "0.05",
    "0.1",
    "0.12",
    "1.3",
    "12.3",
  ]);
});

test("a part of a whole says a common unit once", () => {
  expect(bytesOf(3 * 2 ** 30, 24 * 2 ** 30)).toBe("3 of 24 GiB");
  expect(bytesOf(512 * 2 ** 20, 2 ** 30)).toBe("512 MiB of 1 GiB");
});

test("durations above a day or below nothing are not shown", () => {
  expect(duration(72)).toBe("1 min 12 s");
  expect(duration(119.7)).toBe("2 min");
  expect(duration(3661)).toBe("1 h 1 min");
  expect(duration(90_000)).toBe(UNKNOWN);
  expect(duration(-1)).toBe(UNKNOWN);
});

test("ages are words", () => {
  const now = Date.parse("2026-01-01T00:10:00Z");
  expect(ago("2026-01-01T00:09:58Z", now)).toBe("just now");
  expect(ago("2026-01-01T00:07:00Z", now)).toBe("3 minutes ago");
  expect(ago(null, now)).toBe("never");
});

test("words for counts and lists", () => {
  expect(plural(1, "node")).toBe("1 node");
  expect(plural(0, "node")).toBe("0 nodes");
  expect(percent(99.9)).toBe("99 %");
  expect(joinWords(["a", "b", "c"])).toBe("a, b, and c");
});

test("times in sentences of the server are shown in the reader's time zone", () => {
  expect(withLocalTimes("PostgreSQL is away since 2026-11-16 10:57:20 UTC. Models are served.")).toBe(
    `PostgreSQL is away since ${formatMoment("2026-11-16T10:57:20Z")}. Models are served.`,
  );
});

test("shares are whole and add up to a hundred", () => {
  expect(roundShares([56.7, 25.9, 17.4], 100)).toEqual([57, 26, 17]);
  expect(roundShares([1, 1, 1], 3)).toEqual([34, 33, 33]);
  expect(roundShares([0, 0], 0)).toEqual([0, 0]);
});

test("shares of a list that was cut leave the rest of the hundred to the rows that are not shown", () => {
  expect(roundShares([30, 20], 100)).toEqual([30, 20]);
  expect(roundShares([1, 1], 1000)).toEqual([0, 0]);
});

test("dates and ages are in the same English, whatever the language of the browser", () => {
  expect(pickLocale(["de-DE", "en-US"])).toBe("en-US");
  expect(pickLocale(["de-DE", "fr"])).toBe("en-GB");
  expect(formatMoment("2026-11-16T10:00:00Z")).toMatch(/Nov/);
});
