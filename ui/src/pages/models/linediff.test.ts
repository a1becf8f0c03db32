import { expect, test } from "vitest";
import { lineDiff } from "@/pages/models/linediff";

const marks = (before: string, after: string) =>
  lineDiff(before, after).map(
    (line) => `${{ same: " ", gone: "-", new: "+", "left out": "…" }[line.kind]}${line.text}`,
  );

test("a changed line goes and comes", () => {
  expect(marks("a\nb\nc\n", "a\nx\nc\n")).toEqual([" a", "-b", "+x", " c"]);
});

test("what is inserted moves nothing else", () => {
  expect(marks("a\nb\n", "a\nnew\nb\n")).toEqual([" a", "+new", " b"]);
  expect(marks("", "a\n")).toEqual(["+a"]);
  expect(marks("a\n", "")).toEqual(["-a"]);
});

test("long unchanged parts are left out and counted", () => {
  const many = Array.from({ length: 20 }, (_, line) => `line ${line}`).join("\n");
  const found = marks(`${many}\nlast`, `${many}\nLAST`);
  expect(found[0]).toBe("…17");
  expect(found.slice(-2)).toEqual(["-last", "+LAST"]);
});

test("the same text has nothing to show", () => {
  expect(marks("a\nb", "a\nb\n")).toEqual(["…2"]);
});
