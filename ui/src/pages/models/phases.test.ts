import { expect, test } from "vitest";
import { headline, phaseWord, stepOf, targetWord } from "@/pages/models/phases";

const load = (phase: string | null, state = "running") => ({
  kind: "model_load",
  phase,
  state,
  name: "chat",
});

test("a load goes from the place to memory", () => {
  expect(["placing", "downloading", "starting", "loading"].map((phase) => stepOf(load(phase)))).toEqual([
    0, 1, 2, 3,
  ]);
  expect(stepOf(load(null, "completed"))).toBe(4);
  expect(stepOf({ kind: "model_delete", phase: "removing", state: "running" })).toBeNull();
});

test("unknown words are shown as they are", () => {
  expect(phaseWord("warming_up")).toBe("warming up");
  expect(targetWord({ state: "lost_in_space", phase: null })).toBe("lost_in_space");
});

test("what has been cancelled is not celebrated", () => {
  expect(headline(load("loading", "cancelled"))).toBe("Cancelled: chat");
  expect(headline(load("loading", "completed"))).toBe("Loaded: chat");
  expect(headline(load("loading"))).toBe("Loading chat");
});
