import { expect, test } from "vitest";
import type { GalleryModelOut, ModelCapabilitiesOut } from "@/api/schema";
import { describeChoice, keepChoice, listChoices, pickChoice } from "@/pages/playground/choices";

const model = (
  name: string,
  states: string[] = [],
  more: Partial<ModelCapabilitiesOut> = {},
): ModelCapabilitiesOut => ({
  id: name,
  name,
  capabilities: ["chat"],
  backend: "fake",
  disabled: false,
  load_failed: false,
  pinned: false,
  source: "",
  loaded_on: states.map((state) => ({ node_id: "1", node_name: "gpu-a", state, node_status: "healthy" })),
  ...more,
});
const entry = (name: string, more: Partial<GalleryModelOut> = {}) =>
  ({
    id: `corral@${name}`,
    name,
    gallery: "corral",
    serves: ["chat"],
    installed: false,
    size: "145 MB",
    ...more,
  }) as GalleryModelOut;

test("what is loaded comes first, then what is there, then what can be had", () => {
  const choices = listChoices(
    "chat",
    [model("cold"), model("hot", ["loaded"]), model("warm", ["loading"])],
    [entry("new")],
  );
  expect(choices.map((choice) => [choice.name, choice.ready])).toEqual([
    ["hot", "loaded"],
    ["warm", "loading"],
    ["cold", "cold"],
    ["new", "absent"],
  ]);
});

test("a newcomer is offered the small model", () => {
  expect(listChoices("chat", [], [entry("aaa"), entry("smollm2-135m")])[0]?.name).toBe("smollm2-135m");
});

test("disabled models and those that cannot do it are left out", () => {
  const present = [
    model("off", ["loaded"], { disabled: true }),
    model("voice", [], { capabilities: ["speech"] }),
  ];
  expect(listChoices("chat", present, [entry("done", { installed: true })])).toEqual([]);
  expect(listChoices("speech", present, [])[0]?.name).toBe("voice");
});

test("an address that names a model that is not there chooses nothing else instead", () => {
  const choices = listChoices("chat", [model("hot", ["loaded"])], []);
  expect(pickChoice(choices, "gone")).toBeNull();
  expect(pickChoice(choices, undefined)?.name).toBe("hot");
});

test("current model stays chosen when another becomes ready and while it is being installed", () => {
  const choice = (name: string) => ({ name, ready: "cold" as const, note: "", entry: null });
  const [small, other] = [choice("small"), choice("other")];
  expect(keepChoice([other, small], undefined, null)).toBe(other);
  expect(keepChoice([other, small], undefined, small)).toBe(small);
  expect(keepChoice([other], undefined, small)).toBe(small);
  expect(keepChoice([other], "small", small)).toBe(small);
  expect(keepChoice([other], "gone", small)).toBeNull();
  expect(keepChoice([other], "other", small)).toBe(other);
});

test("only a loaded model is shown as loaded", () => {
  const [hot, warm, leaving] = ["loaded", "loading", "unloading"].map(
    (state) => listChoices("chat", [model("m", [state])], [])[0] ?? null,
  );
  expect(describeChoice(hot ?? null)).toMatch(/^Ready\./);
  expect(describeChoice(warm ?? null)).toMatch(/^Loading;/);
  expect(describeChoice(leaving ?? null)).toMatch(/^Not loaded;/);
});

test("a catalog entry without files says no size, and a model whose load failed says so", () => {
  const [choice] = listChoices("chat", [], [entry("bare", { size: "" })]);
  expect(choice?.note).toBe("not installed; installed on the first request");
  const [sick] = listChoices("chat", [model("sick", [], { load_failed: true })], []);
  expect(sick?.note).toContain("last load failed");
});
