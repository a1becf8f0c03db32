// Shows an answer: Markdown, parsed by marked and rendered as React elements. Nothing that a model writes becomes
// HTML: tags stay text, an image is a link that loads nothing, and links lead to the web or to a mail address only.
import { Marked, type Token, type Tokens } from "marked";
import { Fragment, memo, type ReactNode, useState } from "react";
import "@/kit/answer.css";

const SAFE_PROTOCOLS = new Set(["http:", "https:", "mailto:"]);
const ENTITIES: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  "#39": "'",
  nbsp: "\u00a0",
};
const ENTITY = /&(amp|lt|gt|quot|apos|#39|nbsp);/g;
// Deeper than any real answer; what is nested deeper is shown as it was written.
const DEPTH_MAX = 24;
// The parser compares every mark of emphasis with every other one of its paragraph; more than these would take seconds.
const MARKS_MAX = 2000;
const MARK = /\*+|(?<!\w)_+|_+(?!\w)/g;

const parser = new Marked({
  tokenizer: {
    // A dash below a line begins a list more often than it makes a heading: the line would be a heading for a moment.
    lheading(source) {
      const found = this.rules.block.lheading.exec(source);
      const [raw = "", text = "", underline = ""] = found ?? [];
      if (!found) return undefined;
      const isRule = underline.startsWith("---");
      const kept = isRule ? `${text}\n` : raw;
      return {
        type: "paragraph",
        raw: kept,
        text: kept.trimEnd(),
        tokens: this.lexer.inline(kept.trimEnd()),
      } as unknown as Tokens.Heading;
    },
    // Without definitions a block depends on no other, so a block that is written does not change any more.
    def: () => undefined,
  },
});

/** Drawn again when the text grows, and of it only the block that grows. */
export const AnswerText = memo(function AnswerText({ text }: { text: string }) {
  const [answer] = useState(() => new AnswerParser());
  return (
    <div className="written">
      {answer.parse(text).map((block, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks only come at the end
        <AnswerBlock key={place} block={block} />
      ))}
    </div>
  );
});

/** Parses an answer that grows: only its end, because what has a blank line and two blocks after it stays as it is. */
export class AnswerParser {
  private settledText = "";
  private settled: Token[] = [];

  parse(text: string): Token[] {
    if (!text.startsWith(this.settledText)) {
      this.settledText = "";
      this.settled = [];
    }
    const tokens = parseTokens(text.slice(this.settledText.length));
    const done = tokens.slice(0, countSettled(tokens));
    const doneText = done.map((token) => token.raw).join("");
    const blocks = [...this.settled, ...tokens.filter(isShown)];
    if (text.startsWith(doneText, this.settledText.length)) {
      this.settledText += doneText;
      this.settled = [...this.settled, ...done.filter(isShown)];
    }
    return blocks;
  }
}

function countSettled(tokens: readonly Token[]): number {
  const last = tokens.findLastIndex(isShown);
  const end = tokens.findLastIndex((token, place) => place < last && isShown(token));
  return tokens.findLastIndex((token, place) => place < end && token.raw.endsWith("\n\n")) + 1;
}

function isShown(token: Token): boolean {
  return token.type !== "space";
}

/** A code block that is not closed yet is one all the same: the answer is still being written. */
function parseTokens(text: string): Token[] {
  const asWritten: Tokens.HTML = { type: "html", raw: text, text, block: true, pre: false };
  if (text.split("\n\n").some((part) => (part.match(MARK)?.length ?? 0) > MARKS_MAX)) return [asWritten];
  try {
    return parser.lexer(text);
  } catch {
    // The parser calls itself for what is nested; thousands of quote marks in a row are more than the stack holds.
    return [asWritten];
  }
}

const AnswerBlock = memo(
  ({ block }: { block: Token }) => drawBlock(block, 0),
  (one, other) => one.block.raw === other.block.raw && one.block.type === other.block.type,
);

function drawAll(tokens: readonly Token[] | undefined, depth: number): ReactNode {
  return tokens?.map((token, place) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: tokens only come at the end
    <Fragment key={place}>{drawBlock(token, depth)}</Fragment>
  ));
}

function drawBlock(token: Token, depth: number): ReactNode {
  if (depth > DEPTH_MAX) return token.raw;
  const inner = () => drawAll((token as Tokens.Generic).tokens, depth + 1);
  switch (token.type) {
    case "space":
      return null;
    case "paragraph":
      return <p>{inner()}</p>;
    case "heading":
      return (
        <p>
          <strong>{inner()}</strong>
        </p>
      );
    case "code":
      return (
        <pre>
          <code>{token.text}</code>
        </pre>
      );
    case "list":
      return drawList(token as Tokens.List, depth);
    case "blockquote":
      return <blockquote>{inner()}</blockquote>;
    case "table":
      return drawTable(token as Tokens.Table, depth);
    case "hr":
      return <hr />;
    case "html":
      return (token as Tokens.HTML).block ? <p>{token.raw.trimEnd()}</p> : token.raw;
    default:
      return drawInline(token, inner);
  }
}

function drawInline(token: Token, inner: () => ReactNode): ReactNode {
  switch (token.type) {
    case "text":
      return (token as Tokens.Text).tokens ? inner() : decodeEntities(token.text);
    case "escape":
      return token.text;
    case "strong":
      return <strong>{inner()}</strong>;
    case "em":
      return <em>{inner()}</em>;
    case "del":
      return <del>{inner()}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "checkbox":
      return (token as Tokens.Checkbox).checked ? "☑ " : "☐ ";
    case "link":
      return drawLink(token as Tokens.Link, inner());
    case "image":
      return drawLink(token as Tokens.Image, token.text || token.href);
    default:
      return token.raw;
  }
}

function drawLink(token: Tokens.Link | Tokens.Image, label: ReactNode): ReactNode {
  const address = decodeEntities(token.href);
  if (!isSafeAddress(address)) return token.raw;
  return (
    <a href={address} title={address} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  );
}

function drawList(list: Tokens.List, depth: number): ReactNode {
  const items = list.items.map((item, place) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: items only come at the end
    <li key={place}>{drawAll(item.tokens, depth + 1)}</li>
  ));
  return list.ordered ? <ol start={list.start || 1}>{items}</ol> : <ul>{items}</ul>;
}

function drawTable(table: Tokens.Table, depth: number): ReactNode {
  const cells = (row: Tokens.TableCell[], Cell: "th" | "td") =>
    row.map((cell, place) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: cells only come at the end
      <Cell key={place} style={{ textAlign: cell.align ?? "left" }}>
        {drawAll(cell.tokens, depth + 1)}
      </Cell>
    ));
  return (
    <table>
      <thead>
        <tr>{cells(table.header, "th")}</tr>
      </thead>
      <tbody>
        {table.rows.map((row, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows only come at the end
          <tr key={place}>{cells(row, "td")}</tr>
        ))}
      </tbody>
    </table>
  );
}

function decodeEntities(text: string): string {
  return text.replaceAll(ENTITY, (written, name: string) => ENTITIES[name] ?? written);
}

/** Whether a link leads out of the page and runs nothing. An address without a protocol is none. */
function isSafeAddress(address: string): boolean {
  try {
    return SAFE_PROTOCOLS.has(new URL(address).protocol);
  } catch {
    return false;
  }
}
