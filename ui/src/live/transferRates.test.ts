import { expect, test } from "vitest";
import { TransferRateMeter } from "@/live/transferRates";

test("a pace needs two readings", () => {
  const rates = new TransferRateMeter();
  expect(rates.addReading("a", 0, 1000, 0)).toEqual({ bytesPerS: null, secondsLeft: null });
  expect(rates.addReading("a", 500, 1000, 1000)).toEqual({ bytesPerS: 500, secondsLeft: 1 });
});

test("only the last five seconds count", () => {
  const rates = new TransferRateMeter();
  rates.addReading("a", 0, 10_000, 0);
  rates.addReading("a", 5000, 10_000, 1000);
  expect(rates.addReading("a", 5100, 10_000, 6000).bytesPerS).toBe(20);
});

test("rate starts over when the bytes go backwards", () => {
  const rates = new TransferRateMeter();
  rates.addReading("a", 900, 1000, 0);
  expect(rates.addReading("a", 10, 1000, 1000).bytesPerS).toBeNull();
  expect(rates.addReading("a", 110, 1000, 2000).bytesPerS).toBe(100);
});

test("rate is unknown without a known size or counted bytes", () => {
  const rates = new TransferRateMeter();
  rates.addReading("a", 0, null, 0);
  expect(rates.addReading("a", 100, null, 1000)).toEqual({ bytesPerS: 100, secondsLeft: null });
  expect(rates.addReading("b", null, null, 0).bytesPerS).toBeNull();
});

test("what has ended is forgotten", () => {
  const rates = new TransferRateMeter();
  rates.addReading("a", 0, 10, 0);
  rates.keepOnly([]);
  expect(rates.addReading("a", 5, 10, 1000).bytesPerS).toBeNull();
});
