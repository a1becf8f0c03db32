// An answer as it is read: paragraphs, lists, code, bold. Text only: nothing that a model writes becomes markup.
import type { ReactNode } from "react";

export function Written({ text }: { text: string }) {
  return <div className="written">{blocksOf(text).map(shown)}</div>;
}

export type Block =
  | { kind: "code"; language: string; text: string }
  | { kind: "list"; ordered: boolean; items: string[] }
  | { kind: "heading"; text: string }
  | { kind: "text"; text: string };

const FENCE = /^```(\w*)/;
const ITEM = /^\s*(?:[-*]|(\d+)[.)])\s+(.*)$/;

/** A code block that is not closed yet is one all the same: the answer is still being written. */
export function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split("\n");
  for (let place = 0; place < lines.length; place += 1) {
    const line = lines[place] ?? "";
    const fence = FENCE.exec(line);
    const item = ITEM.exec(line);
    const last = blocks.at(-1);
    if (fence) {
      const end = lines.findIndex((other, at) => at > place && other.startsWith("```"));
      const until = end === -1 ? lines.length : end;
      blocks.push({ kind: "code", language: fence[1] ?? "", text: lines.slice(place + 1, until).join("\n") });
      place = until;
    } else if (item) {
      const ordered = item[1] !== undefined;
      if (last?.kind === "list" && last.ordered === ordered) last.items.push(item[2] ?? "");
      else blocks.push({ kind: "list", ordered, items: [item[2] ?? ""] });
    } else if (/^#{1,6}\s/.test(line)) {
      blocks.push({ kind: "heading", text: line.replace(/^#+\s*/, "") });
    } else if (line.trim() === "") {
      blocks.push({ kind: "text", text: "" });
    } else if (last?.kind === "text" && last.text) {
      last.text += `\n${line}`;
    } else {
      blocks.push({ kind: "text", text: line });
    }
  }
  return blocks.filter((block) => block.kind !== "text" || block.text);
}

function shown(block: Block, place: number): ReactNode {
  // Blocks only grow at the end: their place is their name.
  switch (block.kind) {
    case "code":
      return (
        <pre key={place}>
          <code>{block.text}</code>
        </pre>
      );
    case "list": {
      const List = block.ordered ? "ol" : "ul";
      return (
        <List key={place}>
          {block.items.map((item, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: items only come at the end
            <li key={at}>{inline(item)}</li>
          ))}
        </List>
      );
    }
    case "heading":
      return (
        <p key={place}>
          <strong>{block.text}</strong>
        </p>
      );
    default:
      return <p key={place}>{inline(block.text)}</p>;
  }
}

const MARKS = /(`[^`]+`|\*\*[^*]+\*\*)/;

function inline(text: string): ReactNode[] {
  return text.split(MARKS).map((part, place) => {
    const key = `${place}`;
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`"))
      return <code key={key}>{part.slice(1, -1)}</code>;
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**"))
      return <strong key={key}>{part.slice(2, -2)}</strong>;
    return part;
  });
}
