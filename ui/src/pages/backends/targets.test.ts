import { expect, test } from "vitest";
import { operation, target } from "@/pages/backends/sample";
import { againFor, canGoBack, offeredBack, said, standing, wavesOf } from "@/pages/backends/targets";

test("queued, busy, done and failed have words of their own", () => {
  const words = ["queued", "working", "success", "error"].map((state) => said({ state }).word);
  expect(words).toEqual(["Queued", "Busy", "Done", "Failed"]);
  expect(said({ state: "working", phase: "making_room" }).word).toBe("Busy: making room");
});

test("waves are told in their order, each with how it stands", () => {
  const waves = wavesOf([
    target("c", "skipped", { wave: 2 }),
    target("a", "success"),
    target("b", "error", { wave: 1 }),
  ]);
  expect(waves.map((wave) => [wave.number, wave.state])).toEqual([
    [0, "done"],
    [1, "failed"],
    [2, "stopped"],
  ]);
  expect(wavesOf([target("a", "queued"), target("b", "success")])[0]?.state).toBe("busy");
});

test("a failure says where, and what was not begun because of it", () => {
  const failed = operation(
    "fake",
    [target("a", "success"), target("b", "error", { error: "No." }), target("c", "skipped")],
    { state: "failed" },
  );
  expect(standing(failed)).toBe("Failed on b. Stopped there: 1 node not begun.");
  expect(standing(operation("fake", [target("a", "success"), target("b", "working")]))).toBe(
    "Installing: 1 of 2 nodes done.",
  );
});

test("a cancelled operation says what it did before that, and what was not begun", () => {
  const some = operation("fake", [target("a", "success"), target("b", "cancelled", { begun: false })], {
    state: "cancelled",
  });
  expect(standing(some)).toBe("Cancelled. Installed on 1 node before that.");
  expect(standing({ ...some, nodes: [target("b", "cancelled")] })).toBe("Cancelled.");
  expect(said({ state: "cancelled", begun: false }).word).toBe("Not begun");
  expect(said({ state: "cancelled", begun: true }).word).toBe("Cancelled");
});

test("an operation whose nodes are not chosen yet counts none", () => {
  expect(standing(operation("fake", []))).toBe("Installing: nodes are being chosen.");
});

test("trying again asks for the same, on the nodes that do not have it", () => {
  const failed = operation("fake", [target("a", "success"), target("b", "error"), target("c", "skipped")], {
    state: "failed",
    kind: "backend_upgrade",
    request: {
      backend: "corral@fake",
      version: "2.0",
      strategy: { waves: [1], stops_on_failure: true, rolls_back: false },
    },
  });
  expect(againFor(failed)).toMatchObject({
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
  expect(againFor(external)?.source).toEqual({ uri: "https://x/y", name: "own", sha256: "" });
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
  expect(canGoBack(ended)).toEqual(["id-a"]);
  expect(canGoBack({ ...ended, state: "running" })).toEqual([]);
});

test("who looks at one node is offered its roll-back once, not beside that of the operation", () => {
  const upgraded = (...names: string[]) =>
    operation(
      "fake",
      names.map((name) => target(name, "success", { previous_version: "1.0" })),
      { state: "completed", kind: "backend_upgrade" },
    );
  expect(offeredBack(upgraded("a"), "id-a")).toEqual([]);
  expect(offeredBack(upgraded("a"), undefined)).toEqual(["id-a"]);
  expect(offeredBack(upgraded("a", "b"), "id-a")).toEqual(["id-a", "id-b"]);
});
