import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { blocksOf, Written } from "@/pages/playground/Written";

test("paragraphs, lists and code are told apart", () => {
  expect(blocksOf("Hi\nthere\n\n- a\n- b\n1. c\n```py\nx = 1\n```\nend").map((block) => block.kind)).toEqual([
    "text",
    "list",
    "list",
    "code",
    "text",
  ]);
});

test("code that is still being written is code", () => {
  expect(blocksOf("```\nx =")).toEqual([{ kind: "code", language: "", text: "x =" }]);
});

test("markup in an answer stays text", () => {
  const { container } = render(<Written text={'<img src=x onerror="alert(1)"> **bold** `code`'} />);
  expect(container.querySelector("img")).toBeNull();
  expect(container.querySelector("strong")?.textContent).toBe("bold");
  expect(container.querySelector("code")?.textContent).toBe("code");
});
