// The form of a new agent, in the place of the list.
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { PageHeader } from "@/kit/Panel";
import { useToast } from "@/kit/toasts";
import { AgentForm } from "@/pages/agents/AgentForm";
import { createAgent } from "@/pages/agents/calls";

export function NewAgent() {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  return (
    <>
      <p className="small">
        <Link to="/agents">All agents</Link>
      </p>
      <PageHeader
        title="New agent"
        note="A name and a model are enough to begin. All of it can be changed later."
      />
      <AgentForm
        config={null}
        verb="Create agent"
        onSubmit={createAgent}
        onSaved={(agent) => {
          toast(`Created ${agent.name}.`);
          void cache.invalidateQueries({ queryKey: ["agents"] });
          void navigate({ to: "/agents/$agent", params: { agent: agent.name } });
        }}
      />
    </>
  );
}
