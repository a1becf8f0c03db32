import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { CallerOut } from "@/api/schema";
import { LINGER_MS } from "@/live/hub";
import { LiveUpdates } from "@/live/LiveUpdates";
import { MeContext } from "@/shell/me";

class Source extends EventTarget {
  readyState = 1;
  constructor(readonly address: string) {
    super();
    opened.push(this);
  }
  close() {
    this.readyState = 2;
  }
  hello() {
    this.dispatchEvent(Object.assign(new Event("hello"), { data: "{}", lastEventId: "7" }));
  }
}

let opened: Source[] = [];
let isHidden = false;

function show(isShown: boolean): void {
  isHidden = !isShown;
  document.dispatchEvent(new Event("visibilitychange"));
}

function rendered() {
  const cache = new QueryClient();
  const invalidate = vi.spyOn(cache, "invalidateQueries");
  render(
    <QueryClientProvider client={cache}>
      <MeContext value={{ name: "ada", scope: "admin" } as CallerOut}>
        <LiveUpdates />
      </MeContext>
    </QueryClientProvider>,
  );
  return invalidate;
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("SharedWorker", undefined);
  vi.stubGlobal("EventSource", Object.assign(Source, { CONNECTING: 0, OPEN: 1, CLOSED: 2 }));
  vi.spyOn(document, "hidden", "get").mockImplementation(() => isHidden);
  opened = [];
  isHidden = false;
});

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

test("queries that were fetched before the stream was open are refetched when it opens", () => {
  const invalidate = rendered();
  expect(invalidate).not.toHaveBeenCalled();
  opened[0]?.hello();
  opened[0]?.hello();
  expect(invalidate).toHaveBeenCalledOnce();
});

test("a tab that is hidden for a while holds no connection, and refetches everything when it is shown", () => {
  const invalidate = rendered();
  opened[0]?.hello();
  invalidate.mockClear();
  show(false);
  vi.advanceTimersByTime(2 * LINGER_MS);
  expect(opened.map((source) => source.readyState)).toEqual([2]);
  expect(invalidate).not.toHaveBeenCalled();
  show(true);
  expect(opened).toHaveLength(2);
  opened[1]?.hello();
  expect(invalidate).toHaveBeenCalledOnce();
});

test("a tab that is hidden for a moment keeps its connection and refetches nothing", () => {
  const invalidate = rendered();
  opened[0]?.hello();
  invalidate.mockClear();
  show(false);
  vi.advanceTimersByTime(LINGER_MS / 2);
  show(true);
  expect(opened.map((source) => source.readyState)).toEqual([1]);
  expect(invalidate).not.toHaveBeenCalled();
});

test("a tab that is opened in the background refetches everything when it is shown", () => {
  isHidden = true;
  const invalidate = rendered();
  expect(opened).toHaveLength(0);
  show(true);
  opened[0]?.hello();
  expect(invalidate).toHaveBeenCalledOnce();
});
