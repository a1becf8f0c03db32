import { expect, test } from "vitest";
import { findStep, headline } from "@/pages/models/phases";

const load = (phase: string | null, state = "running") => ({
  kind: "model_load",
  phase,
  state,
  name: "chat",
});

test("a load goes from the place to memory", () => {
  expect(["placing", "downloading", "starting", "loading"].map((phase) => findStep(load(phase)))).toEqual([
    0, 1, 2, 3,
  ]);
  expect(findStep(load(null, "completed"))).toBe(4);
  expect(findStep({ kind: "model_delete", phase: "removing", state: "running" })).toBeNull();
});

test("what has been cancelled is not celebrated", () => {
  expect(headline(load("loading", "cancelled"))).toBe("Cancelled: chat");
  expect(headline(load("loading", "completed"))).toBe("Loaded: chat");
  expect(headline(load("loading"))).toBe("Loading chat");
});
