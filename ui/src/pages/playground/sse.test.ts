import { expect, test } from "vitest";
import { Events } from "@/pages/playground/sse";

test("an event is told when it is whole, wherever it was cut", () => {
  const events = new Events();
  expect(events.feed("data: {")).toEqual([]);
  expect(events.feed('"a":1}\n')).toEqual([]);
  expect(events.feed("\ndata: 2\n\nda")).toEqual(['{"a":1}', "2"]);
  expect(events.feed("ta: 3\r\n\r\n")).toEqual(["3"]);
});

test("comments and other fields say nothing", () => {
  expect(new Events().feed(": still here\n\nevent: error\ndata: x\nid: 4\n\n")).toEqual(["x"]);
});
