import { expect, test } from "vitest";
import { operation, target } from "@/pages/backends/sample";
import {
  describeOperation,
  groupWaves,
  listOfferedRollbacks,
  listRollbackNodes,
  makeRetryChange,
} from "@/pages/backends/targets";

test("waves are listed in their order, each with its state", () => {
  const waves = groupWaves([
    target("c", "skipped", { wave: 2 }),
    target("a", "success"),
    target("b", "error", { wave: 1 }),
  ]);
  expect(waves.map((wave) => [wave.number, wave.state])).toEqual([
    [0, "done"],
    [1, "failed"],
    [2, "stopped"],
  ]);
  expect(groupWaves([target("a", "queued"), target("b", "success")])[0]?.state).toBe("busy");
});

test("a failure says where it happened and how many nodes were skipped", () => {
  const failed = operation(
    "fake",
    [target("a", "success"), target("b", "error", { error: "No." }), target("c", "skipped")],
    { state: "failed" },
  );
  expect(describeOperation(failed)).toBe("Failed on b. Stopped; 1 node skipped.");
  expect(describeOperation(operation("fake", [target("a", "success"), target("b", "working")]))).toBe(
    "Installing: 1 of 2 nodes completed.",
  );
});

test("a cancelled operation says on how many nodes it had completed", () => {
  const some = operation("fake", [target("a", "success"), target("b", "cancelled", { begun: false })], {
    state: "cancelled",
  });
  expect(describeOperation(some)).toBe("Cancelled. Installed on 1 node before that.");
  expect(describeOperation({ ...some, nodes: [target("b", "cancelled")] })).toBe("Cancelled.");
});

test("an operation whose nodes are not chosen yet counts none", () => {
  expect(describeOperation(operation("fake", []))).toBe("Installing: selecting nodes.");
});

test("a retry requests the same change on the nodes that do not have it", () => {
  const failed = operation("fake", [target("a", "success"), target("b", "error"), target("c", "skipped")], {
    state: "failed",
    kind: "backend_upgrade",
    request: {
      backend: "corral@fake",
      version: "2.0",
      strategy: { waves: [1], stops_on_failure: true, rolls_back: false },
    },
  });
  expect(makeRetryChange(failed)).toMatchObject({
    verb: "upgrade",
    backend: "corral@fake",
    nodes: ["id-b", "id-c"],
    version: "2.0",
    strategy: { waves: [1], stop_on_failure: true, rollback: false },
    source: null,
  });
  const external = operation("own", [target("a", "error")], {
    request: { backend: "own", uri: "https://x/y" },
  });
  expect(makeRetryChange(external)?.source).toEqual({ uri: "https://x/y", name: "own", sha256: "" });
});

test("only nodes that an upgrade has changed can go back", () => {
  const ended = operation(
    "fake",
    [
      target("a", "success", { previous_version: "1.0" }),
      target("b", "success", { previous_version: "1.0", is_rollback: true }),
      target("c", "error", { previous_version: "1.0" }),
    ],
    { state: "failed", kind: "backend_upgrade" },
  );
  expect(listRollbackNodes(ended)).toEqual(["id-a"]);
  expect(listRollbackNodes({ ...ended, state: "running" })).toEqual([]);
});

test("who looks at one node is offered its roll-back once, not beside that of the operation", () => {
  const upgraded = (...names: string[]) =>
    operation(
      "fake",
      names.map((name) => target(name, "success", { previous_version: "1.0" })),
      { state: "completed", kind: "backend_upgrade" },
    );
  expect(listOfferedRollbacks(upgraded("a"), "id-a")).toEqual([]);
  expect(listOfferedRollbacks(upgraded("a"), undefined)).toEqual(["id-a"]);
  expect(listOfferedRollbacks(upgraded("a", "b"), "id-a")).toEqual(["id-a", "id-b"]);
});
