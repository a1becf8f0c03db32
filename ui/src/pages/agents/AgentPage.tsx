// The page of one agent: the conversation with it, its configuration, and its runs.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import type { AgentConfigOut } from "@/api/schema";
import { PageHeader } from "@/kit/Panel";
import { RecordView } from "@/kit/RecordView";
import { Pill, Tag } from "@/kit/status";
import { Tabs } from "@/kit/Tabs";
import { useToast } from "@/kit/toasts";
import { AgentActions } from "@/pages/agents/AgentActions";
import { AgentForm } from "@/pages/agents/AgentForm";
import { ScheduleText } from "@/pages/agents/AgentRow";
import { AgentRuns } from "@/pages/agents/AgentRuns";
import { Chat } from "@/pages/agents/Chat";
import { agentQuery, replaceAgent } from "@/pages/agents/calls";
import { agentWord, canEdit, keyOf } from "@/pages/agents/words";
import { useHasScope } from "@/shell/me";
import "@/pages/agents/agents.css";

export default function AgentPage() {
  const { agent: name } = useParams({ from: "/agents/$agent" });
  const { owner } = useSearch({ from: "/agents/$agent" });
  const isAdmin = useHasScope("admin");
  const query = useQuery(agentQuery({ name, owner: isAdmin ? owner : undefined }, useHasScope("operate")));
  return (
    <RecordView
      query={query}
      back={<Link to="/agents">All agents</Link>}
      gone="This agent was deleted or renamed."
    >
      {(agent) => <AgentBody key={agent.id} agent={agent} />}
    </RecordView>
  );
}

const OWN_TABS = { chat: "Chat", configuration: "Configuration", runs: "Runs" } as const;
/** An agent of another user that is not shared: its threads are theirs. */
const OTHER_TABS = { configuration: "Configuration", runs: "Runs" } as const;

function AgentBody({ agent }: { agent: AgentConfigOut }) {
  const { tab, thread, owner } = useSearch({ from: "/agents/$agent" });
  const navigate = useNavigate();
  const { text, tone } = agentWord(agent.status);
  const isUsable = keyOf(agent).owner === undefined;
  const shown = tab && (isUsable || tab !== "chat") ? tab : isUsable ? "chat" : "configuration";
  return (
    <>
      <PageHeader
        title={agent.name}
        note={
          <span className="row">
            <Pill tone={tone}>{text}</Pill>
            <Tag title="The model that answers">{agent.model}</Tag>
            {agent.shared && <Tag tone="busy">shared</Tag>}
            {!agent.is_own && <Tag>{`of ${agent.owner_name}`}</Tag>}
            {agent.standalone_job && (
              <span className="small">
                <ScheduleText agent={agent} />
              </span>
            )}
          </span>
        }
      >
        <AgentActions agent={agent} onDeleted={() => void navigate({ to: "/agents" })} />
      </PageHeader>
      <div className="agents-tabs">
        <Tabs
          label={`About ${agent.name}`}
          tabs={isUsable ? OWN_TABS : (OTHER_TABS as typeof OWN_TABS)}
          shown={shown}
          kept={{ thread, owner }}
        >
          {shown === "chat" && <Chat agent={agent} />}
          {shown === "configuration" && <AgentConfiguration agent={agent} />}
          {shown === "runs" && <AgentRuns agent={keyOf(agent)} />}
        </Tabs>
      </div>
    </>
  );
}

function AgentConfiguration({ agent }: { agent: AgentConfigOut }) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const hasStream = useHasScope("operate");
  const isEditable = canEdit(agent, useHasScope("admin"));
  const key = keyOf(agent);
  return (
    <AgentForm
      config={agent.config}
      name={agent.name}
      verb="Save changes"
      isReadOnly={!isEditable}
      onSubmit={(body) => replaceAgent(key, body)}
      onSaved={(saved) => {
        toast(`Saved ${saved.name}.`);
        cache.setQueryData(agentQuery(keyOf(saved), hasStream).queryKey, saved);
        if (saved.name !== agent.name)
          void navigate({
            to: "/agents/$agent",
            params: { agent: saved.name },
            search: { tab: "configuration" },
            replace: true,
          });
        void cache.invalidateQueries({ queryKey: ["agents", "list"] });
      }}
    />
  );
}
