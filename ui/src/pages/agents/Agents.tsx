// The list of agents: those of the caller, shared ones, and for admins those of everybody.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { AgentOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { AgentImportDialog } from "@/pages/agents/AgentImportDialog";
import { AgentRow } from "@/pages/agents/AgentRow";
import { AgentTabs } from "@/pages/agents/AgentTabs";
import { agentsQuery } from "@/pages/agents/calls";
import { NewAgent } from "@/pages/agents/NewAgent";
import { filterAgents, sortAgents } from "@/pages/agents/words";
import { useHasScope } from "@/shell/me";
import { usePageSearch } from "@/shell/usePageSearch";
import "@/pages/agents/agents.css";

export default function Agents() {
  const [{ add }] = usePageSearch("/agents");
  return add === "new" ? <NewAgent /> : <AgentList />;
}

function AgentList() {
  const [{ q = "", owner, add }, setSearch] = usePageSearch("/agents");
  const isAdmin = useHasScope("admin");
  const isEverybody = isAdmin && owner === "everybody";
  const query = useQuery(agentsQuery(isEverybody, useHasScope("operate")));
  return (
    <>
      <PageHeader
        title="Agents"
        note="A model with instructions, tools and limits. Talk to it, or let it work by itself."
      >
        <Link className="button" to="/agents/collections">
          Collections
        </Link>
        <Button icon="up" onClick={() => setSearch({ add: "import" })}>
          Import
        </Button>
        <Button kind="primary" icon="plus" onClick={() => setSearch({ add: "new" })}>
          New agent
        </Button>
      </PageHeader>
      <AgentTabs />
      <div className="stack">
        <search className="row">
          {isAdmin && (
            <SegmentedControl
              label="Whose agents"
              value={owner ?? "mine"}
              options={[
                { value: "mine", label: "Mine and shared" },
                { value: "everybody", label: "Everybody" },
              ]}
              onChange={(whose) => setSearch({ owner: whose === "everybody" ? whose : undefined })}
            />
          )}
          <SearchField
            label="Search agents"
            value={q}
            onChange={(term) => setSearch({ q: term || undefined }, true)}
          />
        </search>
        <QueryView query={query}>
          {(agents) => <Rows agents={agents} term={q} isEverybody={isEverybody} />}
        </QueryView>
      </div>
      {add === "import" && <AgentImportDialog onClose={() => setSearch({ add: undefined }, true)} />}
    </>
  );
}

function Rows({ agents, term, isEverybody }: { agents: AgentOut[]; term: string; isEverybody: boolean }) {
  const shown = sortAgents(filterAgents(agents, term));
  if (shown.length === 0) return <NoAgents isFiltered={agents.length > 0} isEverybody={isEverybody} />;
  return (
    <ul className="plain agents-list" aria-label="Agents">
      {shown.map((agent) => (
        <AgentRow key={agent.id} agent={agent} />
      ))}
    </ul>
  );
}

function NoAgents({ isFiltered, isEverybody }: { isFiltered: boolean; isEverybody: boolean }) {
  const [, setSearch] = usePageSearch("/agents");
  if (isFiltered) {
    return (
      <EmptyState title="No agents match this search.">
        <Button small onClick={() => setSearch({ q: undefined })}>
          Clear search
        </Button>
      </EmptyState>
    );
  }
  return (
    <EmptyState title={isEverybody ? "There are no agents yet." : "You have no agents yet."}>
      <div className="stack agents-beginning">
        <p>
          An agent is one of your models with instructions of its own. It remembers its conversations, calls
          tools of MCP servers, asks you before it calls those that you mark, and can work towards a goal by
          itself.
        </p>
        <p>To begin, give it a name and choose its model. Everything else has a default.</p>
        <span className="row agents-middle">
          <Button small icon="plus" onClick={() => setSearch({ add: "new" })}>
            Create your first agent
          </Button>
          <Button small onClick={() => setSearch({ add: "import" })}>
            Import a file
          </Button>
        </span>
      </div>
    </EmptyState>
  );
}
