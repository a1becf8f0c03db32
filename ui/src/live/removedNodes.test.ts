import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { NodeOut } from "@/api/schema";
import { CacheUpdater } from "@/live/cacheUpdater";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a removed node leaves the list at once and is not queried again", async () => {
  const cache = new QueryClient();
  const queried: string[] = [];
  cache.setQueryData(["nodes"], [{ id: "n-1" }, { id: "n-2" }] as NodeOut[]);
  const stops = ["n-1", "n-2"].map((id) =>
    new QueryObserver(cache, {
      queryKey: ["nodes", "processes", id],
      queryFn: () => queried.push(id),
      staleTime: Number.POSITIVE_INFINITY,
    }).subscribe(() => undefined),
  );
  await vi.advanceTimersByTimeAsync(1000);
  queried.length = 0;
  new CacheUpdater(cache).applyFrame({ kind: "node.removed", data: { key: "n-1", data: { name: "one" } } });
  expect(cache.getQueryData<NodeOut[]>(["nodes"])).toEqual([{ id: "n-2" }]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(queried).toEqual(["n-2"]);
  for (const stop of stops) stop();
});
