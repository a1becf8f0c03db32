import { expect, test } from "vitest";
import type { LiveOut, ModelOut, OperationOut, RuleOut } from "@/api/schema";
import {
  describeModelState,
  isRuleUnmet,
  listActions,
  listActiveOperations,
  listFailures,
  listOperations,
  listSameFailures,
  matches,
  sortModels,
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

const still = { busy: [], isUnmet: false };

test("state counts nodes, and replicas when there are more of them", () => {
  expect(describeModelState(model({ replicas: [replica("a")] }), still).word).toBe("loaded on 1 node");
  expect(describeModelState(model({ replicas: [replica("a"), replica("a")] }), still).word).toBe(
    "2 replicas loaded on 1 node",
  );
});

test("what does not run says why", () => {
  expect(describeModelState(model({ enabled: false }), still).word).toBe("disabled");
  expect(describeModelState(model({ files: null }), still).word).toBe("not downloaded");
  expect(describeModelState(model(), still).word).toBe("idle");
  expect(describeModelState(model(), { busy: [], isUnmet: true }).word).toBe("rule not satisfied");
  expect(describeModelState(model(), { busy: [operation("model_load")], isUnmet: false })).toMatchObject({
    word: "loading",
    tone: "busy",
  });
});

test("a model whose last load failed says so, with the reason, until it runs or is loaded again", () => {
  const sick = { load_error: "There is no build of it." };
  expect(describeModelState(model(sick), still)).toEqual({
    tone: "bad",
    word: "load failed",
    detail: sick.load_error,
  });
  expect(describeModelState(model(sick), { busy: [], isUnmet: true }).detail).toBe(sick.load_error);
  expect(describeModelState(model({ ...sick, replicas: [replica("a")] }), still).tone).toBe("good");
  expect(describeModelState(model(sick), { busy: [operation("model_load")], isUnmet: false }).word).toBe(
    "loading",
  );
});

test("a rule cannot be met until it is tried again, or while its last load has failed", () => {
  const later = { min_replicas: 1, unsatisfiable_until: new Date(2000).toISOString() } as RuleOut;
  const rule = { min_replicas: 1 } as RuleOut;
  const failed = [operation("model_load", "failed")];
  expect(isRuleUnmet(later, model(), [], 1000)).toBe(true);
  expect(isRuleUnmet(later, model(), [], 3000)).toBe(false);
  expect(isRuleUnmet(rule, model(), failed, 0)).toBe(true);
  expect(isRuleUnmet({ min_replicas: 0 } as RuleOut, model(), failed, 0)).toBe(false);
  expect(isRuleUnmet(rule, model({ replicas: [replica("a")] }), failed, 0)).toBe(false);
});

test("of many failures the last one is shown", () => {
  const older = { ...operation("model_load", "failed"), id: "1", createdAt: "2026-01-01" };
  const newer = { ...operation("model_load", "failed"), id: "2", createdAt: "2026-01-02" };
  expect(listFailures("chat", [newer, older]).map((one) => one.id)).toEqual(["2"]);
  expect(listSameFailures(newer, [newer, older])).toEqual(["2", "1"]);
  expect(listSameFailures(older, [newer, older])).toEqual(["1"]);
});

test("an operation of a backend with the same name is not the model's", () => {
  const all = [operation("backend_install", "running", "chat", true), operation("model_load", "failed")];
  expect(listOperations("chat", all).map((one) => one.kind)).toEqual(["model_load"]);
  expect(listActiveOperations("chat", all)).toEqual([]);
  expect(listFailures("chat", all)).toHaveLength(1);
});

test("only what makes sense is offered", () => {
  expect(listActions(model(), [])).toEqual(["load", "talk", "disable", "pin", "edit", "rename", "delete"]);
  expect(listActions(model({ enabled: false, pinned: true }), [])).toEqual([
    "enable",
    "unpin",
    "edit",
    "rename",
    "delete",
  ]);
  expect(listActions(model({ config: { serves: ["embeddings"] } }), [])).not.toContain("talk");
  const running = listActions(model({ replicas: [replica("a")] }), []);
  expect(running).toEqual(expect.arrayContaining(["unload", "logs"]));
  expect(listActions(model(), [operation("model_delete")])).toEqual([]);
  const files = [{ path: "m.GGUF", sha256: "0", size_bytes: 1 }];
  expect(listActions(model({ files }), [])).toContain("quantize");
});

test("the busy ones come first", () => {
  const live = { models: [{ name: "z", in_flight: 2, waiting: 0, replicas: [] }] } as unknown as LiveOut;
  const all = [model({ name: "a" }), model({ name: "b", replicas: [replica("n")] }), model({ name: "z" })];
  expect(sortModels(all, live).map((one) => one.name)).toEqual(["z", "b", "a"]);
});

test("a search looks at names, backends and where it came from", () => {
  expect(matches(model(), "fake home")).toBe(true);
  expect(matches(model(), "llama")).toBe(false);
});
