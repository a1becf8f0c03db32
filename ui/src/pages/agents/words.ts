// Describes agents in words.
import type { AgentOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import type { AgentKey } from "@/pages/agents/calls";

export function agentWord(status: string): { text: string; tone: Tone } {
  return status === "paused" ? { text: "paused", tone: "warn" } : { text: status, tone: "good" };
}

/** How the caller addresses an agent: by name alone if it is their own or shared, else with its owner. */
export function keyOf(agent: Pick<AgentOut, "name" | "owner" | "is_own" | "shared">): AgentKey {
  return agent.is_own || agent.shared ? { name: agent.name } : { name: agent.name, owner: agent.owner };
}

/** Whether the caller may change, pause and delete it. */
export const canEdit = (agent: Pick<AgentOut, "is_own">, isAdmin: boolean): boolean =>
  agent.is_own || isAdmin;

/** Own agents first, then shared ones, then those of others, each by name. */
export function sortAgents(agents: readonly AgentOut[]): AgentOut[] {
  return [...agents].sort(
    (one, other) =>
      rank(one) - rank(other) ||
      one.name.localeCompare(other.name) ||
      one.owner_name.localeCompare(other.owner_name),
  );
}

const rank = (agent: AgentOut): number => (agent.is_own ? 0 : agent.shared ? 1 : 2);

/** Agents whose name, model, description or owner has the term. */
export function filterAgents(agents: readonly AgentOut[], term: string): AgentOut[] {
  const sought = term.trim().toLowerCase();
  return agents.filter(({ name, model, description, owner_name }) =>
    [name, model, description, owner_name].some((text) => text.toLowerCase().includes(sought)),
  );
}
