// The newest runs of the caller with an agent, those that it started by itself among them.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { type AgentKey, agentStatusQuery } from "@/pages/agents/calls";
import { RunRow } from "@/pages/runs/RunRow";
import "@/pages/runs/runs.css";

export function AgentRuns({ agent }: { agent: AgentKey }) {
  const query = useQuery(agentStatusQuery(agent));
  return (
    <QueryView query={query}>
      {({ history }) =>
        history.length === 0 ? (
          <EmptyState title="This agent has not run yet.">Send it a message.</EmptyState>
        ) : (
          <div className="stack">
            <ul className="plain runs-list" aria-label="Runs">
              {history.map((run) => (
                <RunRow key={run.id} run={run} withOwner={agent.owner !== undefined} />
              ))}
            </ul>
            <p className="small">
              <Link to="/runs" search={{ kind: "agent_turn" }}>
                All runs of agents
              </Link>
            </p>
          </div>
        )
      }
    </QueryView>
  );
}
