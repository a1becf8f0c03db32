import { expect, test } from "vitest";
import { Problem } from "@/api/client";
import { matrixOf } from "@/pages/backends/fleet";
import { entryNamed, keeps, listed } from "@/pages/backends/listing";
import { moved } from "@/pages/backends/moving";
import { candidates, chosenBy, refusals, wavesFor } from "@/pages/backends/picking";
import { backend, entry, fleet, node, on, operation, target } from "@/pages/backends/sample";

const given = fleet({
  nodes: [
    node("away", { status: "offline", schedulable: false }),
    node("busy"),
    node("draining", { status: "draining" }),
    node("gpu", { capability: "nvidia" }),
    node("has"),
    node("new"),
  ],
  installed: [backend("fake", [on("has", "1.0", { previous_version: "0.9" })])],
  entries: [entry("fake")],
  operations: [operation("fake", [target("busy", "working")])],
});
const row = matrixOf(given).rows[0];

test("each node has a word on how it would take an installation", () => {
  const all = candidates("install", given.nodes, row, given.entries[0], undefined);
  expect(Object.fromEntries(all.map((one) => [one.node.name, one.word]))).toEqual({
    away: "Away",
    busy: "Busy",
    draining: "Draining",
    gpu: "Other hardware",
    has: "Installed 1.0",
    new: "Compatible",
  });
  expect(all.find((one) => one.node.name === "draining")?.isClosed).toBe(true);
});

test("choosing many leaves out what cannot, or need not", () => {
  const all = candidates("install", given.nodes, row, given.entries[0], undefined);
  const names = (choice: Parameters<typeof chosenBy>[0]) =>
    [...chosenBy(choice, all)].map((id) => id.slice(3));
  expect(names("healthy")).toEqual(["busy", "has", "new"]);
  expect(names("compatible")).toEqual(["away", "busy", "has", "new"]);
  expect(names("missing")).toEqual(["busy", "new"]);
  expect(names("none")).toEqual([]);
});

test("other changes are for nodes that have it", () => {
  const all = candidates("rollback", given.nodes, row, given.entries[0], undefined);
  expect(all.map((one) => [one.node.name, one.word])).toEqual([["has", "Kept 0.9"]]);
});

test("an error that names reasons has them read, and another has none", () => {
  const reasons = [{ node: "a", reason: "It is drained." }];
  expect(
    refusals(new Problem(409, "no_eligible_nodes", "No.", null, { skipped: [...reasons, 3, null] })),
  ).toEqual(reasons);
  expect(refusals(new Error("No."))).toEqual([]);
});

test("waves are numbers, or a sentence on what is wrong", () => {
  expect(wavesFor("once", "")).toEqual([]);
  expect(wavesFor("careful", "")).toEqual([1, 10_000]);
  expect(wavesFor("custom", "1, 5")).toEqual([1, 5]);
  for (const wrong of ["", "0", "1.5", "two"]) expect(typeof wavesFor("custom", wrong)).toBe("string");
});

test("the catalog hides single builds and development twins until asked", () => {
  const entries = [
    entry("llama", { isMeta: true, tags: ["chat"] }),
    entry("cpu-llama", { metaBackendFor: "llama", tags: ["chat"] }),
    entry("piper", { installed: true, tags: ["speech"] }),
    entry("piper-development", { isDevelopment: true }),
  ];
  const names = (more: object) =>
    listed(entries, { q: "", tag: "", all: false, development: false, ...more }).map((one) => one.name);
  expect(names({})).toEqual(["piper", "llama"]);
  expect(names({ all: true, tag: "chat" })).toEqual(["cpu-llama", "llama"]);
  expect(names({ development: true, q: "PIPER dev" })).toEqual(["piper-development"]);
  expect(entryNamed(entries, "corral@piper")?.name).toBe("piper");
});

test("installed backends are kept by who put them there, by upgrades, and by nodes that are away", () => {
  const mine = backend("fake", [on("a", "1", { node_status: "offline" })], { has_upgrade: true });
  const system = backend("sys", [on("a", "1")], { IsSystem: true });
  const kept = (filter: Parameters<typeof keeps>[0]) =>
    [mine, system].filter((one) => keeps(filter, one)).map((one) => one.Name);
  expect([kept(undefined), kept("user"), kept("updates"), kept("offline")]).toEqual([
    ["fake", "sys"],
    ["fake"],
    ["fake"],
    ["fake"],
  ]);
});

test("keys move inside the grid and not out of it", () => {
  expect(moved({ row: 0, column: 0 }, "ArrowLeft", false, 3, 4)).toEqual({ row: 0, column: -1 });
  expect(moved({ row: 0, column: -1 }, "ArrowLeft", false, 3, 4)).toEqual({ row: 0, column: -1 });
  expect(moved({ row: 2, column: 3 }, "ArrowDown", false, 3, 4)).toEqual({ row: 2, column: 3 });
  expect(moved({ row: 1, column: 1 }, "End", true, 3, 4)).toEqual({ row: 2, column: 3 });
  expect(moved({ row: 0, column: 0 }, "x", false, 3, 4)).toBeNull();
});
