import { expect, test } from "vitest";
import { toYaml } from "@/pages/models/yaml";

test("a configuration is written as a person would", () => {
  const config = {
    name: "chat",
    backend: "llama-cpp",
    files: [{ path: "model.gguf", uri: "https://host.example/model.gguf" }, "hf://owner/model"],
    options: { context_size: "8192" },
    threads: 4,
    vram: "12GiB",
    pinned: true,
    aliases: [],
  };
  expect(toYaml(config)).toBe(
    [
      "name: chat",
      "backend: llama-cpp",
      "files:",
      "  - path: model.gguf",
      "    uri: https://host.example/model.gguf",
      "  - hf://owner/model",
      "options:",
      '  context_size: "8192"',
      "threads: 4",
      "vram: 12GiB",
      "pinned: true",
      "aliases: []",
      "",
    ].join("\n"),
  );
});

test("texts that YAML would take for something else are quoted", () => {
  for (const text of [
    "no",
    "On",
    "null",
    "12",
    "1e3",
    "2024-01-01",
    "0xFF",
    "1e5",
    "a: b",
    "- x",
    "#x",
    "",
    " x",
    "x ",
    "*a",
    "a #b",
  ])
    expect(toYaml({ value: text })).toBe(`value: ${JSON.stringify(text)}\n`);
});

test("several lines stay several lines, with or without an end", () => {
  expect(toYaml({ defaults: { system: "Be brief.\n\nBe kind." } })).toBe(
    "defaults:\n  system: |-\n    Be brief.\n\n    Be kind.\n",
  );
  expect(toYaml({ system: "a\nb\n" })).toBe("system: |\n  a\n  b\n");
  expect(toYaml({ system: " a\nb" })).toBe('system: " a\\nb"\n');
});

test("lists in lists and empty things are kept", () => {
  expect(toYaml({ defaults: { stop: ["</s>", "User:"], meta: {}, deep: [[1, 2], { a: [] }] } })).toBe(
    'defaults:\n  stop:\n    - "</s>"\n    - "User:"\n  meta: {}\n  deep:\n    -\n      - 1\n      - 2\n    - a: []\n',
  );
});
