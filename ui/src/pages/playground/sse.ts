// Parses server-sent events from pieces of text, however the network has split them.

export class SseParser {
  private rest = "";

  /** The data of every event that is whole now. */
  feed(piece: string): string[] {
    const blocks = (this.rest + piece).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(dataOf).filter((data) => data !== "");
  }
}

function dataOf(block: string): string {
  return block
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5).trimStart())
    .join("\n");
}
