import { beforeEach, expect, test, vi } from "vitest";
import { type ConnectionStatus, EventStream, type StreamFrame } from "@/live/stream";

class Source extends EventTarget {
  readyState = 0;
  constructor(readonly address: string) {
    super();
    opened.push(this);
  }
  close() {
    this.readyState = 2;
  }
  send(type: string, data: unknown, lastEventId = "") {
    this.readyState = 1;
    this.dispatchEvent(Object.assign(new Event(type), { data: JSON.stringify(data), lastEventId }));
  }
  fail(state: number) {
    this.readyState = state;
    this.dispatchEvent(new Event("error"));
  }
}

let opened: Source[] = [];
let frames: StreamFrame[] = [];
let states: ConnectionStatus[] = [];
let sinces: (number | undefined)[] = [];
let refused = 0;

function started(address?: string): EventStream {
  const stream = new EventStream(
    {
      onFrame: (frame) => frames.push(frame),
      onConnection: (state, since) => {
        states.push(state);
        sinces.push(since);
      },
      onRefused: () => {
        refused += 1;
      },
    },
    ["node.approved"],
    address,
    (address) => new Source(address) as unknown as EventSource,
  );
  stream.start();
  return stream;
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", { CONNECTING: 0, OPEN: 1, CLOSED: 2 });
  opened = [];
  frames = [];
  states = [];
  sinces = [];
  refused = 0;
});

test("it is open when the server says hello, and hands on what it hears", () => {
  started();
  opened[0]?.send("hello", {}, "7");
  opened[0]?.send("node.approved", { key: "a" }, "8");
  expect(states).toEqual(["connecting", "open"]);
  expect(frames.map((frame) => frame.kind)).toEqual(["hello", "node.approved"]);
});

test("a refused stream is opened again from its place, ever more slowly", () => {
  started();
  opened[0]?.send("hello", {}, "7");
  opened[0]?.fail(2);
  expect(refused).toBe(1);
  vi.advanceTimersByTime(1000);
  expect(opened[1]?.address).toBe("/api/stream?after=7");
  opened[1]?.fail(2);
  vi.advanceTimersByTime(1999);
  expect(opened).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(opened).toHaveLength(3);
});

test("the place in the stream is added to an address that has parameters", () => {
  started("/api/runs/1/events?all_users=true");
  opened[0]?.send("hello", {}, "7");
  opened[0]?.fail(2);
  vi.advanceTimersByTime(1000);
  expect(opened[1]?.address).toBe("/api/runs/1/events?all_users=true&after=7");
});

test("a cut that the browser reconnects itself is reported as lost, and no second connection is opened", () => {
  started();
  opened[0]?.send("hello", {}, "7");
  opened[0]?.fail(0);
  expect(states.at(-1)).toBe("lost");
  expect(opened).toHaveLength(1);
  opened[0]?.send("hello", {}, "9");
  expect(states.at(-1)).toBe("open");
});

test("a connection without frames is reported as silent since its last frame, and as lost after a while", () => {
  started();
  opened[0]?.send("hello", {}, "7");
  const last = Date.now();
  vi.advanceTimersByTime(9000);
  opened[0]?.send("still", {});
  vi.advanceTimersByTime(9999);
  expect(states.at(-1)).toBe("open");
  vi.advanceTimersByTime(1);
  expect(states.at(-1)).toBe("silent");
  expect(sinces.at(-1)).toBe(last + 9000);
  expect(opened).toHaveLength(1);
  vi.advanceTimersByTime(10_000);
  expect(opened).toHaveLength(2);
  expect(states.at(-1)).toBe("lost");
});

test("a silent connection that speaks again is open", () => {
  started();
  opened[0]?.send("hello", {}, "7");
  vi.advanceTimersByTime(12_000);
  opened[0]?.send("still", {});
  expect(states).toEqual(["connecting", "open", "silent", "open"]);
  expect(frames).toHaveLength(1);
});

test("frames of a replaced connection are ignored", () => {
  started();
  opened[0]?.send("hello", {}, "7");
  opened[0]?.fail(2);
  vi.advanceTimersByTime(1000);
  opened[0]?.send("node.approved", {}, "99");
  expect(frames).toHaveLength(1);
});
