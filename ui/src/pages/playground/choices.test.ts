import { expect, test } from "vitest";
import type { CapabilitiesOut, GalleryModelOut } from "@/api/schema";
import { choicesOf, chosenOf, heldChoice, invitation } from "@/pages/playground/choices";

const model = (
  name: string,
  states: string[] = [],
  more: Partial<CapabilitiesOut> = {},
): CapabilitiesOut => ({
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
  const choices = choicesOf(
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
  expect(choicesOf("chat", [], [entry("aaa"), entry("smollm2-135m")])[0]?.name).toBe("smollm2-135m");
});

test("disabled models and those that cannot do it are left out", () => {
  const present = [
    model("off", ["loaded"], { disabled: true }),
    model("voice", [], { capabilities: ["speech"] }),
  ];
  expect(choicesOf("chat", present, [entry("done", { installed: true })])).toEqual([]);
  expect(choicesOf("speech", present, [])[0]?.name).toBe("voice");
});

test("an address that names a model that is not there chooses nothing else instead", () => {
  const choices = choicesOf("chat", [model("hot", ["loaded"])], []);
  expect(chosenOf(choices, "gone")).toBeNull();
  expect(chosenOf(choices, undefined)?.name).toBe("hot");
});

test("who is talked to stays, whoever else becomes ready and while it is being installed", () => {
  const choice = (name: string) => ({ name, ready: "cold" as const, note: "", entry: null });
  const [small, other] = [choice("small"), choice("other")];
  expect(heldChoice([other, small], undefined, null)).toBe(other);
  expect(heldChoice([other, small], undefined, small)).toBe(small);
  expect(heldChoice([other], undefined, small)).toBe(small);
  expect(heldChoice([other], "small", small)).toBe(small);
  expect(heldChoice([other], "gone", small)).toBeNull();
  expect(heldChoice([other], "other", small)).toBe(other);
});

test("only a model that is loaded is said to be loaded", () => {
  const [hot, warm, leaving] = ["loaded", "loading", "unloading"].map(
    (state) => choicesOf("chat", [model("m", [state])], [])[0] ?? null,
  );
  expect(invitation(hot ?? null)).toMatch(/^It is loaded\./);
  expect(invitation(warm ?? null)).toMatch(/^It is being loaded\./);
  expect(invitation(leaving ?? null)).toMatch(/^It is not loaded\./);
});

test("a catalog entry without files says no size, and a model whose load failed says so", () => {
  const [choice] = choicesOf("chat", [], [entry("bare", { size: "" })]);
  expect(choice?.note).toBe("not installed: installs itself when it is asked");
  const [sick] = choicesOf("chat", [model("sick", [], { load_failed: true })], []);
  expect(sick?.note).toContain("last load failed");
});
