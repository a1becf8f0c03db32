// Who may come in: keys for programs, users for people.
import { Button } from "@/kit/Button";
import { Search, Segments } from "@/kit/fields";
import { PageHead } from "@/kit/Panel";
import { KeyList } from "@/pages/access/KeyList";
import { UserList } from "@/pages/access/UserList";
import { useAddress } from "@/shell/useAddress";
import "@/pages/access/access.css";

const TABS = [
  { value: "keys", label: "Keys" },
  { value: "users", label: "Users" },
] as const;

export default function Access() {
  const [{ tab = "keys", q = "", show = "working" }, say] = useAddress("/access");
  const areKeys = tab === "keys";
  return (
    <>
      <PageHead
        title="Keys and users"
        note="Programs come in with a key, people with a password or a key of their own."
      >
        <Button kind="primary" icon="plus" onClick={() => say({ new: true })}>
          {areKeys ? "New key" : "New user"}
        </Button>
      </PageHead>
      <div className="row access-filters">
        <Segments
          label="Keys or users"
          value={tab}
          options={TABS}
          onChange={(word) => say({ tab: word === "keys" ? undefined : word, new: undefined })}
        />
        <Search
          label={areKeys ? "Search keys" : "Search users"}
          value={q}
          onChange={(term) => say({ q: term || undefined }, true)}
        />
        {areKeys && (
          <Segments
            label="Which keys"
            value={show}
            options={[
              { value: "working", label: "That work" },
              { value: "all", label: "All" },
            ]}
            onChange={(word) => say({ show: word === "working" ? undefined : word })}
          />
        )}
      </div>
      {areKeys ? <KeyList /> : <UserList />}
    </>
  );
}
