import { afterEach, expect, test, vi } from "vitest";
import { saveFile } from "@/kit/saveFile";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("the address of a saved file outlives the click that offers it", () => {
  vi.useFakeTimers();
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(() => undefined);
  const revoked: string[] = [];
  URL.createObjectURL = () => "blob:of-this-page";
  URL.revokeObjectURL = (address) => void revoked.push(address);
  saveFile("a.log", "lines");
  vi.advanceTimersByTime(10_000);
  expect(revoked).toEqual([]);
  vi.runAllTimers();
  expect(revoked).toEqual(["blob:of-this-page"]);
});
