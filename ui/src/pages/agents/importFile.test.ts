import { expect, test } from "vitest";
import { parseDocument } from "@/pages/agents/importFile";

test("a file holds one JSON object", () => {
  expect(parseDocument('{"name": "helper"}')).toEqual({ name: "helper" });
  expect(() => parseDocument("{")).toThrow("not valid JSON");
  for (const text of ["[]", "null", '"x"', "1"])
    expect(() => parseDocument(text)).toThrow("does not describe");
});
