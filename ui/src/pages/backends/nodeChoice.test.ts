import { expect, test } from "vitest";
import { Problem } from "@/api/client";
import { buildMatrix } from "@/pages/backends/fleet";
import { movePosition } from "@/pages/backends/gridKeys";
import { filterCatalog, findEntry, matchesInstalledFilter } from "@/pages/backends/listing";
import { chooseNodes, listCandidates, listRefusals, parseWaves } from "@/pages/backends/nodeChoice";
import { backend, entry, fleet, installation, node, operation, target } from "@/pages/backends/sample";

const given = fleet({
  nodes: [
    node("away", { status: "offline", schedulable: false }),
    node("busy"),
    node("draining", { status: "draining" }),
    node("gpu", { capability: "nvidia" }),
    node("has"),
    node("new"),
  ],
  installed: [backend("fake", [installation("has", "1.0", { previous_version: "0.9" })])],
  entries: [entry("fake")],
  operations: [operation("fake", [target("busy", "working")])],
});
const row = buildMatrix(given).rows[0];

test("each node has a word on how it would take an installation", () => {
  const all = listCandidates("install", given.nodes, row, given.entries[0], undefined);
  expect(Object.fromEntries(all.map((one) => [one.node.name, one.word]))).toEqual({
    away: "Unreachable",
    busy: "Running",
    draining: "Draining",
    gpu: "Incompatible hardware",
    has: "Installed 1.0",
    new: "Compatible",
  });
  expect(all.find((one) => one.node.name === "draining")?.isClosed).toBe(true);
});

test("choosing many leaves out what cannot, or need not", () => {
  const all = listCandidates("install", given.nodes, row, given.entries[0], undefined);
  const names = (choice: Parameters<typeof chooseNodes>[0]) =>
    [...chooseNodes(choice, all)].map((id) => id.slice(3));
  expect(names("healthy")).toEqual(["busy", "has", "new"]);
  expect(names("compatible")).toEqual(["away", "busy", "has", "new"]);
  expect(names("missing")).toEqual(["busy", "new"]);
  expect(names("none")).toEqual([]);
});

test("other changes are for nodes that have it", () => {
  const all = listCandidates("rollback", given.nodes, row, given.entries[0], undefined);
  expect(all.map((one) => [one.node.name, one.word])).toEqual([["has", "Can roll back to 0.9"]]);
});

test("an error that names reasons has them read, and another has none", () => {
  const reasons = [{ node: "a", reason: "It is drained." }];
  expect(
    listRefusals(new Problem(409, "no_eligible_nodes", "No.", null, { skipped: [...reasons, 3, null] })),
  ).toEqual(reasons);
  expect(listRefusals(new Error("No."))).toEqual([]);
});

test("waves are numbers, or a sentence on what is wrong", () => {
  expect(parseWaves("once", "")).toEqual([]);
  expect(parseWaves("careful", "")).toEqual([1, 10_000]);
  expect(parseWaves("custom", "1, 5")).toEqual([1, 5]);
  for (const wrong of ["", "0", "1.5", "two"]) expect(typeof parseWaves("custom", wrong)).toBe("string");
});

test("the catalog hides single builds and development builds by default", () => {
  const entries = [
    entry("llama", { isMeta: true, tags: ["chat"] }),
    entry("cpu-llama", { metaBackendFor: "llama", tags: ["chat"] }),
    entry("piper", { installed: true, tags: ["speech"] }),
    entry("piper-development", { isDevelopment: true }),
  ];
  const names = (more: object) =>
    filterCatalog(entries, { q: "", tag: "", all: false, development: false, ...more }).map(
      (one) => one.name,
    );
  expect(names({})).toEqual(["piper", "llama"]);
  expect(names({ all: true, tag: "chat" })).toEqual(["cpu-llama", "llama"]);
  expect(names({ development: true, q: "PIPER dev" })).toEqual(["piper-development"]);
  expect(findEntry(entries, "corral@piper")?.name).toBe("piper");
});

test("installed backends are kept by who put them there, by upgrades, and by nodes that are away", () => {
  const mine = backend("fake", [installation("a", "1", { node_status: "offline" })], { has_upgrade: true });
  const system = backend("sys", [installation("a", "1")], { IsSystem: true });
  const kept = (filter: Parameters<typeof matchesInstalledFilter>[0]) =>
    [mine, system].filter((one) => matchesInstalledFilter(filter, one)).map((one) => one.Name);
  expect([kept(undefined), kept("user"), kept("updates"), kept("offline")]).toEqual([
    ["fake", "sys"],
    ["fake"],
    ["fake"],
    ["fake"],
  ]);
});

test("keys move inside the grid and not out of it", () => {
  expect(movePosition({ row: 0, column: 0 }, "ArrowLeft", false, 3, 4)).toEqual({ row: 0, column: -1 });
  expect(movePosition({ row: 0, column: -1 }, "ArrowLeft", false, 3, 4)).toEqual({ row: 0, column: -1 });
  expect(movePosition({ row: 2, column: 3 }, "ArrowDown", false, 3, 4)).toEqual({ row: 2, column: 3 });
  expect(movePosition({ row: 1, column: 1 }, "End", true, 3, 4)).toEqual({ row: 2, column: 3 });
  expect(movePosition({ row: 0, column: 0 }, "x", false, 3, 4)).toBeNull();
});
