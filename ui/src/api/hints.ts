// Hints of the server are written for every client, and many name a command. The page replaces such a hint with one
// that says what to do on the page.

const HINTS: Record<string, string> = {
  backend_not_found: "See the Backends page for the list.",
  model_not_found: "See the Models page for the list.",
  no_eligible_nodes: "See the Nodes page for the reasons.",
  node_not_found: "See the Nodes page for the list.",
  node_pending: "Approve the node on the Nodes page.",
  not_allowed: "Request a key with a wider scope from an admin.",
  nothing_to_pause: "Cancel the operation instead.",
  operation_not_found: "See the Operations page for all stored operations.",
};
/** `corral nodes list`, with or without backticks. */
const COMMAND = /(^|[\s`:])corral [a-z]+/;

export function pageHint(code: string, hint: string | null): string | null {
  if (hint === null || !COMMAND.test(hint)) return hint;
  return HINTS[code] ?? null;
}
