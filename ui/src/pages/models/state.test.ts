import { expect, test } from "vitest";
import type { LiveOut, ModelOut, OperationOut, RuleOut } from "@/api/schema";
import {
  actionsFor,
  failures,
  matches,
  operationsOf,
  ordered,
  stateOf,
  underWay,
} from "@/pages/models/state";

const model = (over: Partial<ModelOut> = {}): ModelOut =>
  ({
    name: "chat",
    backend: "fake",
    description: "Talks",
    gallery: "home@chat",
    enabled: true,
    pinned: false,
    files: [],
    config: {},
    replicas: [],
    ...over,
  }) as unknown as ModelOut;
const replica = (node: string, state = "loaded") =>
  ({ node_name: node, node_id: node, index: 0, state }) as NonNullable<ModelOut["replicas"]>[number];
const operation = (kind: string, state = "running", name = "chat", isBackend = false): OperationOut =>
  ({ id: kind, kind, state, name, isBackend, nodes: [] }) as unknown as OperationOut;

test("what runs is said by nodes, and by replicas when there are more", () => {
  expect(stateOf(model({ replicas: [replica("a")] }), [], undefined, 0).word).toBe("loaded on 1 node");
  expect(stateOf(model({ replicas: [replica("a"), replica("a")] }), [], undefined, 0).word).toBe(
    "2 replicas loaded on 1 node",
  );
});

test("what does not run says why", () => {
  const unmet = { unsatisfiable_until: new Date(2000).toISOString() } as RuleOut;
  expect(stateOf(model({ enabled: false }), [], undefined, 0).word).toBe("disabled");
  expect(stateOf(model({ files: null }), [], undefined, 0).word).toBe("not fetched");
  expect(stateOf(model(), [], undefined, 0).word).toBe("idle");
  expect(stateOf(model(), [], unmet, 1000).word).toBe("cannot be met");
  expect(stateOf(model(), [], unmet, 3000).word).toBe("idle");
  expect(stateOf(model(), [operation("model_load")], undefined, 0)).toMatchObject({
    word: "loading",
    tone: "busy",
  });
});

test("an operation of a backend with the same name is not the model's", () => {
  const all = [operation("backend_install", "running", "chat", true), operation("model_load", "failed")];
  expect(operationsOf("chat", all).map((one) => one.kind)).toEqual(["model_load"]);
  expect(underWay("chat", all)).toEqual([]);
  expect(failures("chat", all)).toHaveLength(1);
});

test("only what makes sense is offered", () => {
  expect(actionsFor(model(), [])).toEqual(["load", "talk", "disable", "pin", "edit", "rename", "delete"]);
  expect(actionsFor(model({ enabled: false, pinned: true }), [])).toEqual([
    "enable",
    "unpin",
    "edit",
    "rename",
    "delete",
  ]);
  expect(actionsFor(model({ config: { serves: ["embeddings"] } }), [])).not.toContain("talk");
  expect(actionsFor(model({ replicas: [replica("a")] }), [])).toContain("unload");
  expect(actionsFor(model(), [operation("model_delete")])).toEqual([]);
});

test("the busy ones come first", () => {
  const live = { models: [{ name: "z", in_flight: 2, waiting: 0, replicas: [] }] } as unknown as LiveOut;
  const all = [model({ name: "a" }), model({ name: "b", replicas: [replica("n")] }), model({ name: "z" })];
  expect(ordered(all, live).map((one) => one.name)).toEqual(["z", "b", "a"]);
});

test("a search looks at names, backends and where it came from", () => {
  expect(matches(model(), "fake home")).toBe(true);
  expect(matches(model(), "llama")).toBe(false);
});
