// One row of the list of agents.
import { Link } from "@tanstack/react-router";
import type { AgentOut } from "@/api/schema";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { AgentActions } from "@/pages/agents/AgentActions";
import { agentWord, keyOf } from "@/pages/agents/words";

export function AgentRow({ agent }: { agent: AgentOut }) {
  const { text, tone } = agentWord(agent.status);
  const { owner } = keyOf(agent);
  return (
    <li className="panel agents-row" aria-label={`${agent.name}: ${text}`}>
      <div className="agents-what">
        <div className="row tight agents-name">
          <Link to="/agents/$agent" params={{ agent: agent.name }} search={owner ? { owner } : {}}>
            {agent.name}
          </Link>
          {agent.shared && <Tag tone="busy">shared</Tag>}
          {!agent.is_own && <Tag>{`of ${agent.owner_name}`}</Tag>}
        </div>
        {agent.description && <p className="small soft agents-about">{agent.description}</p>}
      </div>
      <div>
        <Pill tone={tone}>{text}</Pill>
      </div>
      <dl className="agents-facts small">
        <div>
          <dt>Model</dt>
          <dd>{agent.model}</dd>
        </div>
        <div>
          <dt>Schedule</dt>
          <dd>
            <ScheduleText agent={agent} />
          </dd>
        </div>
      </dl>
      <AgentActions agent={agent} />
    </li>
  );
}

/** When an agent that works by itself did so last, and will do so next. */
export function ScheduleText({
  agent,
}: {
  agent: Pick<AgentOut, "standalone_job" | "next_run_at" | "last_run_at">;
}) {
  if (!agent.standalone_job) return "answers messages";
  return (
    <>
      {agent.next_run_at ? (
        <>
          next run <RelativeTime at={agent.next_run_at} />
        </>
      ) : (
        "no run planned"
      )}
      {agent.last_run_at ? (
        <>
          , last run <RelativeTime at={agent.last_run_at} />
        </>
      ) : (
        ", not run yet"
      )}
    </>
  );
}
