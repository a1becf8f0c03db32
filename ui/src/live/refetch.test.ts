import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { refetchQueries } from "@/live/refetch";

function watched() {
  const cache = new QueryClient();
  const answers: ((value: string) => void)[] = [];
  const fetch = vi.fn(() => new Promise<string>((resolve) => answers.push(resolve)));
  new QueryObserver(cache, { queryKey: ["nodes"], queryFn: fetch, staleTime: Infinity }).subscribe(() => {});
  return { cache, answers, fetch, data: () => cache.getQueryData(["nodes"]) };
}

test("a first fetch that began before a change is repeated once when it has ended", async () => {
  const { cache, answers, fetch, data } = watched();
  refetchQueries(cache, ["nodes"]);
  refetchQueries(cache);
  expect(fetch).toHaveBeenCalledOnce();
  answers[0]?.("before the change");
  await vi.waitFor(() => expect(fetch).toHaveBeenCalledTimes(2));
  expect(data()).toBe("before the change");
  answers[1]?.("after the change");
  await vi.waitFor(() => expect(data()).toBe("after the change"));
  expect(fetch).toHaveBeenCalledTimes(2);
});

test("a later fetch that began before a change is started again", async () => {
  const { cache, answers, fetch, data } = watched();
  answers[0]?.("first");
  await vi.waitFor(() => expect(data()).toBe("first"));
  refetchQueries(cache);
  refetchQueries(cache);
  expect(fetch).toHaveBeenCalledTimes(3);
  answers[1]?.("before the change");
  answers[2]?.("after the change");
  await vi.waitFor(() => expect(data()).toBe("after the change"));
});

test("a query that does not match is left alone", async () => {
  const { cache, answers, fetch, data } = watched();
  refetchQueries(cache, ["keys"]);
  answers[0]?.("first");
  await vi.waitFor(() => expect(data()).toBe("first"));
  expect(fetch).toHaveBeenCalledOnce();
});
