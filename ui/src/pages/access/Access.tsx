// The access page: API keys for programs, users for people, secrets and MCP servers for what both configure. Only admins
// see keys and users; everybody has secrets of their own, and sees the names of MCP servers.
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { PageHeader } from "@/kit/Panel";
import { KeyList } from "@/pages/access/KeyList";
import { McpServerList } from "@/pages/access/McpServerList";
import { SecretList } from "@/pages/access/SecretList";
import { UserList } from "@/pages/access/UserList";
import { useHasScope } from "@/shell/me";
import { usePageSearch } from "@/shell/usePageSearch";
import "@/pages/access/access.css";

const TABS = [
  { value: "keys", label: "Keys" },
  { value: "users", label: "Users" },
  { value: "secrets", label: "Secrets" },
  { value: "mcp", label: "MCP servers" },
] as const;
/** What callers see who are no admins. */
const OPEN_TABS = TABS.filter(({ value }) => value === "secrets" || value === "mcp");

const WORDS = {
  keys: {
    title: "Keys and users",
    note: "Programs sign in with an API key, people with a password or a key.",
    verb: "New key",
    search: "Search keys",
  },
  users: {
    title: "Keys and users",
    note: "Programs sign in with an API key, people with a password or a key.",
    verb: "New user",
    search: "Search users",
  },
  secrets: {
    title: "Secrets",
    note: "Tokens of other services. Agents, tasks and MCP servers refer to them by name.",
    verb: "New secret",
    search: "Search secrets",
  },
  mcp: {
    title: "MCP servers",
    note: "Programs and addresses that give models tools. Agents and tasks choose them by name.",
    verb: "New MCP server",
    search: "Search MCP servers",
  },
} as const;

export default function Access() {
  const [{ tab: chosen = "keys", q = "", show = "working", of }, setSearch] = usePageSearch("/access");
  const isAdmin = useHasScope("admin");
  const operates = useHasScope("operate");
  const tab = isAdmin || chosen === "mcp" ? chosen : "secrets";
  const words = WORDS[tab];
  const canAdd = isAdmin || (tab === "secrets" && of !== "cluster");
  return (
    <>
      <PageHeader title={words.title} note={words.note}>
        {canAdd && (
          <Button kind="primary" icon="plus" onClick={() => setSearch({ new: true })}>
            {words.verb}
          </Button>
        )}
      </PageHeader>
      <div className="row access-filters">
        <SegmentedControl
          label="Section"
          value={tab}
          options={isAdmin ? TABS : OPEN_TABS}
          onChange={(word) => setSearch({ tab: word === "keys" ? undefined : word, new: undefined })}
        />
        <SearchField
          label={words.search}
          value={q}
          onChange={(term) => setSearch({ q: term || undefined }, true)}
        />
        {tab === "keys" && (
          <SegmentedControl
            label="Filter keys"
            value={show}
            options={[
              { value: "working", label: "Active" },
              { value: "all", label: "All" },
            ]}
            onChange={(word) => setSearch({ show: word === "working" ? undefined : word })}
          />
        )}
        {tab === "secrets" && operates && (
          <SegmentedControl
            label="Whose secrets"
            value={of ?? "own"}
            options={[
              { value: "own", label: "Mine" },
              { value: "cluster", label: "Cluster" },
            ]}
            onChange={(word) => setSearch({ of: word === "cluster" ? word : undefined, new: undefined })}
          />
        )}
      </div>
      {tab === "keys" && <KeyList />}
      {tab === "users" && <UserList />}
      {tab === "secrets" && <SecretList />}
      {tab === "mcp" && <McpServerList />}
    </>
  );
}
