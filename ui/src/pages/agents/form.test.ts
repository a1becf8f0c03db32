import { expect, test } from "vitest";
import { Problem } from "@/api/client";
import type { AgentMetadataOut } from "@/api/schema";
import {
  type FormField,
  isSameDraft,
  labelOf,
  listChoices,
  listFieldErrors,
  listSections,
  makeDraft,
  moveUp,
  readDraft,
} from "@/pages/agents/form";

const field = (name: string, section: string, type: string, more: object = {}) => ({
  name,
  section,
  type,
  description: "",
  default: null,
  required: false,
  options: [],
  ...more,
});

const METADATA = {
  sections: ["identity", "model", "tools", "execution", "later"],
  fields: [
    field("description", "identity", "string", { default: "" }),
    field("name", "identity", "string", { required: true }),
    field("shared", "identity", "boolean", { default: false }),
    field("model", "model", "string", { default: "" }),
    field("temperature", "model", "number", { minimum: 0, maximum: 5 }),
    field("tool_mode", "model", "string", { default: "auto", options: ["auto", "native"] }),
    field("system_prompt", "model", "string", { default: "" }),
    field("mcp_servers", "tools", "array", { default: [] }),
    field("mcp_stdio_servers", "tools", "array", { default: [] }),
    field("tool_rules", "tools", "object", { default: {} }),
    field("max_iterations", "execution", "integer", { default: 10, minimum: 1, maximum: 1000 }),
    field("budgets", "execution", "object", { default: { wall: "5m", tokens: null } }),
    field("labels", "execution", "object", { default: {} }),
    field("future", "later", "array", { default: [1] }),
  ],
  json_schema: {
    properties: {
      name: { type: "string", maxLength: 100 },
      system_prompt: { type: "string", maxLength: 65536 },
      temperature: { anyOf: [{ type: "number" }, { type: "null" }] },
      budgets: { $ref: "#/$defs/Budgets" },
      labels: { type: "object", additionalProperties: { type: "string" } },
      tool_rules: { type: "object", additionalProperties: { type: "string", enum: ["auto"] } },
    },
    $defs: {
      Budgets: {
        type: "object",
        properties: {
          wall: { type: "string", default: "5m", examples: ["5m"], maxLength: 20 },
          tokens: { anyOf: [{ type: "integer", minimum: 1 }, { type: "null" }], default: null },
        },
      },
    },
  },
} as unknown as AgentMetadataOut;

const SECTIONS = listSections(METADATA, true);
const BUDGETS: FormField = SECTIONS.flatMap(({ fields }) => fields).find(
  ({ name }) => name === "budgets",
) as FormField;
const controls = () =>
  Object.fromEntries(SECTIONS.flatMap(({ fields }) => fields.map(({ name, control }) => [name, control])));

test("every field of the metadata has a control, also one that this page does not know", () => {
  expect(controls()).toEqual({
    name: "text",
    description: "text",
    shared: "flag",
    model: "model",
    temperature: "number",
    tool_mode: "choice",
    system_prompt: "long",
    mcp_servers: "servers",
    mcp_stdio_servers: "declared",
    tool_rules: "rules",
    max_iterations: "number",
    budgets: "group",
    labels: "pairs",
    future: "json",
  });
  expect(BUDGETS.fields.map(({ name, control, minimum }) => [name, control, minimum])).toEqual([
    ["wall", "text", null],
    ["tokens", "number", 1],
  ]);
});

test("required fields stand first, and only admins share", () => {
  expect(SECTIONS[0]?.fields.map(({ name }) => name)).toEqual(["name", "description", "shared"]);
  expect(listSections(METADATA, false)[0]?.fields.map(({ name }) => name)).toEqual(["name", "description"]);
});

test("a configuration becomes a draft and the same configuration again", () => {
  const config = {
    name: "helper",
    description: "d",
    shared: false,
    model: "chat",
    temperature: 0.5,
    tool_mode: "native",
    system_prompt: "Be brief.\n",
    mcp_servers: [
      { name: "a", url: "https://a.example", transport: "sse", headers: { X: "1" }, token: "secret:t" },
    ],
    mcp_stdio_servers: ["time"],
    tool_rules: { "files__*": "ask", "*": "deny" },
    max_iterations: 3,
    budgets: { wall: "1m", tokens: 7 },
    labels: { zone: "a" },
    future: [2],
  };
  const { body, errors } = readDraft(SECTIONS, makeDraft(SECTIONS, config));
  expect(errors).toEqual({});
  expect(body).toEqual(config);
  expect(Object.keys(body.tool_rules as object)).toEqual(["files__*", "*"]);
});

test("a new agent starts with the defaults, and fields that were cleared go back to them", () => {
  const draft = { ...makeDraft(SECTIONS), name: " x ", model: "m", max_iterations: null };
  const { body } = readDraft(SECTIONS, draft);
  expect(body).toMatchObject({ name: "x", tool_mode: "auto", max_iterations: 10, temperature: null });
  const cleared = { ...draft, budgets: { wall: "", tokens: null } };
  expect(readDraft(SECTIONS, cleared).body.budgets).toEqual({ wall: "5m", tokens: null });
});

test("fields that a newer version has stored are not sent back", () => {
  const { body } = readDraft(SECTIONS, makeDraft(SECTIONS, { name: "a", model: "m", unknown: 1 }));
  expect(body).not.toHaveProperty("unknown");
});

test("what is missing or doubled is found before anything is sent", () => {
  const draft = {
    ...makeDraft(SECTIONS),
    tool_rules: [
      { key: "a", value: "ask" },
      { key: "a", value: "deny" },
    ],
    labels: [{ key: "", value: "x" }],
    mcp_servers: [{ name: "", url: " ", transport: "http", token: "", headers: [] }],
    future: "{",
  };
  expect(readDraft(SECTIONS, draft).errors).toEqual({
    name: "Give it a name.",
    model: "Choose the model that answers.",
    tool_rules: "a is there twice.",
    labels: "A name is missing.",
    mcp_servers: "Server 1 has no address.",
    future: "This is not valid JSON.",
  });
  const unfinished = { ...draft, tool_rules: [{ key: "", value: "ask" }] };
  expect(readDraft(SECTIONS, unfinished).errors).not.toHaveProperty("tool_rules");
});

test("an error of the server is shown at its field", () => {
  const errors = (problem: Problem) => listFieldErrors(problem, SECTIONS);
  expect(errors(new Problem(400, "bad_agent", "model: an agent needs a model.", "List them."))).toEqual({
    model: "An agent needs a model. List them.",
  });
  expect(errors(new Problem(400, "bad_agent", "budgets.wall: '1x' is not a duration."))).toEqual({
    "budgets.wall": "'1x' is not a duration.",
  });
  expect(errors(new Problem(409, "agent_exists", "You have an agent 'a' already."))).toEqual({
    name: "You have an agent 'a' already.",
  });
  const problems = [
    { field: "max_iterations", problem: "Input should be less than or equal to 1000" },
    { field: "mcp_servers.1.url", problem: "String should have at least 1 character" },
    { field: "elsewhere", problem: "no" },
  ];
  expect(errors(new Problem(400, "invalid_request", "max_iterations: …", null, { problems }))).toEqual({
    max_iterations: "Input should be less than or equal to 1000.",
    mcp_servers: "Number 2, url: String should have at least 1 character.",
  });
  expect(errors(new Problem(503, "unavailable", "PostgreSQL is away."))).toEqual({});
});

test("a row is moved before the row that it was behind, and the first one stays", () => {
  const pairs = ["a", "b", "c"].map((key) => ({ key, value: "ask" }));
  expect(moveUp(pairs, 2).map(({ key }) => key)).toEqual(["a", "c", "b"]);
  expect(moveUp(pairs, 0)).toEqual(pairs);
});

test("changes are found by value", () => {
  expect(isSameDraft(makeDraft(SECTIONS), makeDraft(SECTIONS))).toBe(true);
  expect(isSameDraft(makeDraft(SECTIONS), { ...makeDraft(SECTIONS), name: "x" })).toBe(false);
});

test("labels are words, and what was chosen and is gone stays in the list", () => {
  expect([labelOf("max_tokens"), labelOf("mcp_servers")]).toEqual(["Max tokens", "MCP servers"]);
  expect(listChoices(["b", "old"], ["a", "b"])).toEqual([
    { name: "a", isGone: false },
    { name: "b", isGone: false },
    { name: "old", isGone: true },
  ]);
});
