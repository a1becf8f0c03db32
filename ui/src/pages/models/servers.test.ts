import { expect, test } from "vitest";
import { listServerNames } from "@/pages/models/servers";

test("names come from declared, remote and stdio servers", () => {
  const mcp = { servers: ["time"], remote: { docs: { url: "https://a.example" } }, stdio: { files: {} } };
  expect(listServerNames({ mcp })).toEqual(["time", "docs", "files"]);
});

test("a model without servers has none", () => {
  expect(listServerNames({})).toEqual([]);
  expect(listServerNames({ mcp: { servers: "time" } })).toEqual([]);
});
