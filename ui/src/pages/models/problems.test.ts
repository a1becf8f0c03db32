import { expect, test } from "vitest";
import { asFleet, inOwnLines, lineOf } from "@/pages/models/problems";

const TEXT = `name: chat
backend: llama-cpp
files:
  - path: a.gguf
    uri: https://host.example/a.gguf
  - path: b.gguf
options:
  context_size: 1
  threads: [1]
idle: soon
`;

test("the text is the one model of a fleet, two lines further down", () => {
  const lines = asFleet("---\nname: chat\n\nbackend: fake\n").split("\n");
  expect(lines.slice(0, 4)).toEqual(["models:", "  -", "", "    name: chat"]);
});

test("a line that the server names is told as the person sees it", () => {
  const message = "The body: this cannot be read as YAML in line 6.";
  expect(inOwnLines(message)).toBe("This cannot be read as YAML in line 4.");
  expect(lineOf(TEXT, message)).toBe(4);
});

test("a setting that is named is found, at the top and inside", () => {
  expect(lineOf(TEXT, "Model chat: idle is not a duration.")).toBe(10);
  expect(lineOf(TEXT, "Model chat: options: threads is not one plain value.")).toBe(9);
  expect(lineOf("name: chat\nbakend: x\n", "Model chat: 'bakend' is not a setting.")).toBe(2);
});

test("a file is found by its number", () => {
  expect(lineOf(TEXT, "Model chat: file 2: it needs a uri, or parts, and not both.")).toBe(6);
});

test("what is missing has no line", () => {
  expect(lineOf("name: chat\n", "Model chat: backend is missing.")).toBeNull();
});
