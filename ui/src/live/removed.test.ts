import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { NodeOut } from "@/api/schema";
import { Feed } from "@/live/feed";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a removed node leaves the list at once and is not asked about again", async () => {
  const cache = new QueryClient();
  const asked: string[] = [];
  cache.setQueryData(["nodes"], [{ id: "n-1" }, { id: "n-2" }] as NodeOut[]);
  const stops = ["n-1", "n-2"].map((id) =>
    new QueryObserver(cache, {
      queryKey: ["nodes", "processes", id],
      queryFn: () => asked.push(id),
      staleTime: Number.POSITIVE_INFINITY,
    }).subscribe(() => undefined),
  );
  await vi.advanceTimersByTimeAsync(1000);
  asked.length = 0;
  new Feed(cache).take({ kind: "node.removed", data: { key: "n-1", data: { name: "one" } } });
  expect(cache.getQueryData<NodeOut[]>(["nodes"])).toEqual([{ id: "n-2" }]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked).toEqual(["n-2"]);
  for (const stop of stops) stop();
});
