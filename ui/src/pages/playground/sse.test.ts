import { expect, test } from "vitest";
import { SseParser } from "@/pages/playground/sse";

test("an event is emitted when it is complete, wherever its bytes were cut", () => {
  const events = new SseParser();
  expect(events.feed("data: {")).toEqual([]);
  expect(events.feed('"a":1}\n')).toEqual([]);
  expect(events.feed("\ndata: 2\n\nda")).toEqual(['{"a":1}', "2"]);
  expect(events.feed("ta: 3\r\n\r\n")).toEqual(["3"]);
});

test("comments and other fields say nothing", () => {
  expect(new SseParser().feed(": still here\n\nevent: error\ndata: x\nid: 4\n\n")).toEqual(["x"]);
});
