// Finds the parameters of a prompt while it is written. Pure. The server reads the template itself when it is saved;
// this is only as exact as a form needs.

/** Go's templates, as LocalAI has them; the server translates them in the same way. */
const GO_VALUE = /\{\{(-?)\s*(?:json\s+)?\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*(-?)\}\}/g;
const LEFT_OUT = /\{#[\s\S]*?#\}|\{%-?\s*raw\s*-?%\}[\s\S]*?\{%-?\s*endraw\s*-?%\}/g;
const TAG = /\{\{([\s\S]*?)\}\}|\{%([\s\S]*?)%\}/g;
const STRING = /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'/g;
const TOKEN = /[A-Za-z_]\w*|==|\d[\w.]*|\S/g;
const NAME = /^[A-Za-z]\w*$/;
const WORDS = new Set(
  "if elif else endif for endfor in is not and or true false none True False None recursive loop".split(" "),
);

/** The names that a template uses, in alphabetical order. */
export function listTemplateNames(source: string): string[] {
  const text = source.replaceAll(GO_VALUE, "{{$1 $2 $3}}").replaceAll(LEFT_OUT, "");
  const found = new Set<string>();
  const loops: string[][] = [];
  for (const [, value, statement] of text.matchAll(TAG)) {
    const tokens: string[] = (value ?? statement ?? "").replaceAll(STRING, " 0 ").match(TOKEN) ?? [];
    // Marks that trim spaces.
    while (tokens[0] === "-" || tokens[0] === "+") tokens.shift();
    let rest = tokens;
    if (statement !== undefined && tokens[0] === "endfor") loops.pop();
    if (statement !== undefined && tokens[0] === "for") {
      const place = tokens.indexOf("in");
      const own = tokens.slice(1, Math.max(1, place)).filter((token) => NAME.test(token));
      // What a loop goes over is read outside of it.
      const condition = tokens.indexOf("if", place);
      const end = condition < 0 ? tokens.length : condition;
      collectNames(tokens.slice(place + 1, end), loops.flat(), found);
      loops.push(own);
      rest = tokens.slice(end);
    }
    collectNames(rest, loops.flat(), found);
  }
  return [...found].sort();
}

function collectNames(tokens: readonly string[], known: readonly string[], found: Set<string>): void {
  tokens.forEach((token, place) => {
    if (!NAME.test(token) || WORDS.has(token) || known.includes(token)) return;
    const before = tokens[place - 1];
    const isTest = before === "is" || (before === "not" && tokens[place - 2] === "is");
    const isOption = tokens[place + 1] === "=";
    if (before === "." || before === "|" || isTest || isOption) return;
    found.add(token);
  });
}
