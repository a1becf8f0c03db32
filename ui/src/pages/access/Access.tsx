// The access page: API keys for programs, users for people.
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { PageHeader } from "@/kit/Panel";
import { KeyList } from "@/pages/access/KeyList";
import { UserList } from "@/pages/access/UserList";
import { usePageSearch } from "@/shell/usePageSearch";
import "@/pages/access/access.css";

const TABS = [
  { value: "keys", label: "Keys" },
  { value: "users", label: "Users" },
] as const;

export default function Access() {
  const [{ tab = "keys", q = "", show = "working" }, setSearch] = usePageSearch("/access");
  const areKeys = tab === "keys";
  return (
    <>
      <PageHeader
        title="Keys and users"
        note="Programs sign in with an API key, people with a password or a key."
      >
        <Button kind="primary" icon="plus" onClick={() => setSearch({ new: true })}>
          {areKeys ? "New key" : "New user"}
        </Button>
      </PageHeader>
      <div className="row access-filters">
        <SegmentedControl
          label="Keys or users"
          value={tab}
          options={TABS}
          onChange={(word) => setSearch({ tab: word === "keys" ? undefined : word, new: undefined })}
        />
        <SearchField
          label={areKeys ? "Search keys" : "Search users"}
          value={q}
          onChange={(term) => setSearch({ q: term || undefined }, true)}
        />
        {areKeys && (
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
      </div>
      {areKeys ? <KeyList /> : <UserList />}
    </>
  );
}
