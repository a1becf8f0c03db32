import { beforeEach, expect, test, vi } from "vitest";
import { type HubMessage, LINGER_MS, StreamHub, TAB_HEARTBEAT_MS, type TabPort } from "@/live/hub";
import type { StreamListener } from "@/live/stream";

let listener: StreamListener;
let calls: string[] = [];

const hub = () =>
  new StreamHub((given) => {
    listener = given;
    return { start: () => calls.push("start"), stop: () => calls.push("stop") };
  });

interface TestTab extends TabPort {
  received: HubMessage[];
  kinds: () => string[];
}

function tab(): TestTab {
  const received: HubMessage[] = [];
  return {
    received,
    postMessage: (message) => received.push(message),
    kinds: () =>
      received.map((one) =>
        one.kind === "connection" ? one.connection : one.kind === "frame" ? one.frame.kind : one.kind,
      ),
  };
}

const SHOWN = { kind: "shown", user: "ada" } as const;
const frame = (kind: string) => listener.onFrame({ kind, data: {} });

beforeEach(() => {
  vi.useFakeTimers();
  calls = [];
});

test("eight tabs share one stream, and each receives every frame", () => {
  const shared = hub();
  const tabs = Array.from({ length: 8 }, tab);
  for (const one of tabs) shared.receive(one, SHOWN);
  listener.onConnection("open");
  frame("node.approved");
  expect(calls).toEqual(["start"]);
  for (const one of tabs) expect(one.kinds().slice(-2)).toEqual(["open", "node.approved"]);
});

test("a tab that connects later is sent the state of the open stream", () => {
  const shared = hub();
  shared.receive(tab(), SHOWN);
  listener.onConnection("open");
  const late = tab();
  shared.receive(late, SHOWN);
  expect(late.kinds()).toEqual(["connecting", "open"]);
});

test("the stream is closed when every tab is hidden, a moment later, and opened when one is shown", () => {
  const shared = hub();
  const only = tab();
  shared.receive(only, SHOWN);
  listener.onConnection("open");
  shared.receive(only, { kind: "hidden" });
  expect(calls).toEqual(["start"]);
  vi.advanceTimersByTime(2 * LINGER_MS);
  expect(calls).toEqual(["start", "stop"]);
  shared.receive(only, SHOWN);
  expect(calls).toEqual(["start", "stop", "start"]);
  // The tab has to know that it missed frames.
  expect(only.kinds().at(-1)).toBe("connecting");
});

test("a tab that is hidden for long is sent nothing while another one is visible", () => {
  const shared = hub();
  const [seen, hidden] = [tab(), tab()];
  shared.receive(seen, SHOWN);
  shared.receive(hidden, SHOWN);
  listener.onConnection("open");
  shared.receive(hidden, { kind: "hidden" });
  vi.advanceTimersByTime(2 * LINGER_MS);
  shared.receive(seen, SHOWN);
  frame("live");
  expect(seen.kinds().at(-1)).toBe("live");
  expect(hidden.kinds()).not.toContain("live");
  shared.receive(hidden, SHOWN);
  expect(hidden.kinds().slice(-2)).toEqual(["connecting", "open"]);
});

test("a tab that gives no sign any more does not keep the stream open", () => {
  const shared = hub();
  shared.receive(tab(), SHOWN);
  vi.advanceTimersByTime(5 * TAB_HEARTBEAT_MS);
  expect(calls).toEqual(["start", "stop"]);
});

test("another user gets another connection", () => {
  const shared = hub();
  shared.receive(tab(), SHOWN);
  shared.receive(tab(), { kind: "shown", user: "grace" });
  expect(calls).toEqual(["start", "stop", "start"]);
});
