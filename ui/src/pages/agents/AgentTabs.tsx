// The pages about agents, the skills that they read, and the repositories that skills come from.
import { Link } from "@tanstack/react-router";

const EXACT = { exact: true, includeSearch: false } as const;

export function AgentTabs() {
  return (
    <nav className="tabs section-tabs" aria-label="Agents and skills">
      <Link to="/agents" activeOptions={EXACT}>
        Agents
      </Link>
      <Link to="/agents/skills" activeOptions={EXACT}>
        Skills
      </Link>
      <Link to="/agents/git-repos" activeOptions={EXACT}>
        Repositories
      </Link>
    </nav>
  );
}
