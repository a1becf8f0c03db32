// Hints of the server are for every client, and many name a command. Whoever sees the page is told what to do there.

const HINTS: Record<string, string> = {
  backend_not_found: "The page of backends shows all of them.",
  model_not_found: "The page of models shows all of them.",
  no_eligible_nodes: "The page of nodes shows why.",
  node_not_found: "The page of nodes shows all of them.",
  node_pending: "Approve it on the page of nodes.",
  not_allowed: "Ask an admin for a key that may do more.",
  nothing_to_pause: "Cancel it instead.",
  operation_not_found: "The page of operations shows all that are kept.",
};
/** `corral nodes list`, with or without backticks. */
const COMMAND = /(^|[\s`:])corral [a-z]+/;

export function pageHint(code: string, hint: string | null): string | null {
  if (hint === null || !COMMAND.test(hint)) return hint;
  return HINTS[code] ?? null;
}
