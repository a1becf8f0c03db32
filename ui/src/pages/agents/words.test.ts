import { expect, test } from "vitest";
import type { AgentOut } from "@/api/schema";
import { agentWord, canEdit, filterAgents, keyOf, sortAgents } from "@/pages/agents/words";

const agent = (name: string, more: Partial<AgentOut> = {}): AgentOut => ({
  id: name,
  name,
  description: "",
  status: "active",
  active: true,
  shared: false,
  revision: 1,
  standalone_job: false,
  owner: "key:1",
  owner_name: "ann",
  is_own: true,
  model: "chat",
  created_at: "2026-11-18T12:00:00Z",
  updated_at: "2026-11-18T12:00:00Z",
  ...more,
});

test("own agents stand before shared ones, and those before the agents of others", () => {
  const others = agent("a", { is_own: false });
  const shared = agent("b", { is_own: false, shared: true });
  expect(sortAgents([others, shared, agent("z"), agent("c")]).map(({ name }) => name)).toEqual([
    "c",
    "z",
    "b",
    "a",
  ]);
});

test("only an agent of another user that is not shared is addressed with its owner", () => {
  expect(keyOf(agent("a"))).toEqual({ name: "a" });
  expect(keyOf(agent("a", { is_own: false, shared: true }))).toEqual({ name: "a" });
  expect(keyOf(agent("a", { is_own: false }))).toEqual({ name: "a", owner: "key:1" });
});

test("owners and admins change an agent", () => {
  expect(canEdit(agent("a"), false)).toBe(true);
  expect(canEdit(agent("a", { is_own: false, shared: true }), false)).toBe(false);
  expect(canEdit(agent("a", { is_own: false }), true)).toBe(true);
});

test("agents are found by name, model, description and owner", () => {
  const all = [
    agent("Herder", { description: "counts sheep" }),
    agent("b", { owner_name: "ben", model: "m" }),
  ];
  const names = (term: string) => filterAgents(all, term).map(({ name }) => name);
  expect([names("herd"), names("SHEEP"), names("ben"), names("m"), names("x")]).toEqual([
    ["Herder"],
    ["Herder"],
    ["b"],
    ["b"],
    [],
  ]);
});

test("a status is a word", () => {
  expect([agentWord("active").tone, agentWord("paused").tone]).toEqual(["good", "warn"]);
});
