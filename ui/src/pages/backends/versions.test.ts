import { expect, test } from "vitest";
import {
  compareVersions,
  findUpgrade,
  isNewer,
  sortNewestFirst,
  upgradeSteps,
  versionWords,
} from "@/pages/backends/versions";

test("numbers are compared as numbers, whatever letter stands in front", () => {
  expect(sortNewestFirst(["b999", "b4567", "b1000"])).toEqual(["b4567", "b1000", "b999"]);
  expect(sortNewestFirst(["1.9.0", "v1.10.0", "1.2"])).toEqual(["v1.10.0", "1.9.0", "1.2"]);
});

test("what stands before a release is older than it", () => {
  expect(compareVersions("1.0rc1", "1.0")).toBeLessThan(0);
  expect(compareVersions("1.0.dev1", "1.0")).toBeLessThan(0);
  expect(compareVersions("1.0", "1.0.0")).toBe(0);
  expect(compareVersions("1.0.1", "1.0")).toBeGreaterThan(0);
});

test("no version is the oldest, and each version is named once", () => {
  expect(isNewer("1.0", "")).toBe(true);
  expect(isNewer("", "1.0")).toBe(false);
  expect(sortNewestFirst(["1.0", "", "1.0"])).toEqual(["1.0"]);
});

test("a node that has the newest is offered nothing, though others are behind", () => {
  const found = { available_version: "2.0", available_digest: "" };
  expect(findUpgrade(found, { version: "1.0", digest: "" })).toBe("2.0");
  expect(findUpgrade(found, { version: "2.0", digest: "" })).toBe("");
  const image = { available_version: "", available_digest: "sha256:b" };
  expect(findUpgrade(image, { version: "", digest: "sha256:a" })).toBe("newer image");
  expect(findUpgrade(image, { version: "", digest: "sha256:b" })).toBe("");
});

test("every version that is there is counted by itself", () => {
  const places = ["2.0.0", "1.0.0", "2.0.0", ""].map((version) => ({ version }));
  expect(versionWords(places)).toBe("2.0.0 on 2 nodes, 1.0.0 on 1 node, no version on 1 node");
});

test("an upgrade lists its versions from and to, and the nodes of each", () => {
  const behind = (node_name: string, from_version: string) => ({
    node_id: node_name,
    node_name,
    from_version,
    to_version: "2.0.0",
  });
  expect(upgradeSteps({ nodes: [behind("a", "0.9"), behind("b", "1.0.0"), behind("c", "1.0.0")] })).toEqual([
    { from: "1.0.0", to: "2.0.0", nodes: ["b", "c"] },
    { from: "0.9", to: "2.0.0", nodes: ["a"] },
  ]);
  expect(upgradeSteps({ nodes: [] })).toEqual([]);
});
