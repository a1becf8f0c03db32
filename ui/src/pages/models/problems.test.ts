import { expect, test } from "vitest";
import { findLine, toFleetFile, toOwnLines } from "@/pages/models/problems";

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
  const lines = toFleetFile("---\nname: chat\n\nbackend: fake\n").split("\n");
  expect(lines.slice(0, 4)).toEqual(["models:", "  -", "", "    name: chat"]);
});

test("a line number of the server is converted to the line that the editor shows", () => {
  const message = "The body: this cannot be read as YAML in line 6.";
  expect(toOwnLines(message)).toBe("This cannot be read as YAML in line 4.");
  expect(findLine(TEXT, message)).toBe(4);
});

test("a setting that is named is found, at the top and inside", () => {
  expect(findLine(TEXT, "Model chat: idle is not a duration.")).toBe(10);
  expect(findLine(TEXT, "Model chat: options: threads is not one plain value.")).toBe(9);
  expect(findLine("name: chat\nbakend: x\n", "Model chat: 'bakend' is not a setting.")).toBe(2);
});

test("a file is found by its number", () => {
  expect(findLine(TEXT, "Model chat: file 2: it needs a uri, or parts, and not both.")).toBe(6);
});

test("what is missing has no line", () => {
  expect(findLine("name: chat\n", "Model chat: backend is missing.")).toBeNull();
});
