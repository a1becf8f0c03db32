import { dropUndefined, parseChoice, parseText } from "@/text/search";

export const AGENT_TABS = ["chat", "configuration", "runs"] as const;

export function agentsSearch(search: Record<string, unknown>) {
  return dropUndefined({
    q: parseText(search, "q"),
    /** Whose agents: everybody's, which only admins may see; without it, those that the caller may use. */
    owner: parseChoice(search, "owner", ["everybody"] as const),
    /** Whether the form of a new agent is shown, or the dialog that imports one. */
    add: parseChoice(search, "add", ["new", "import"] as const),
  });
}

export function agentSearch(search: Record<string, unknown>) {
  return dropUndefined({
    tab: parseChoice(search, "tab", AGENT_TABS),
    thread: parseText(search, "thread"),
    /** For admins: whose agent it is, if it is neither their own nor shared. */
    owner: parseText(search, "owner"),
  });
}
