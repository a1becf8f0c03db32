// What is installed, backend by backend.
import type { InstalledBackendOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Button } from "@/kit/Button";
import { Search, Segments } from "@/kit/fields";
import { Empty, Panel } from "@/kit/Panel";
import { NodeStatus, Pill, Tag } from "@/kit/status";
import { Table } from "@/kit/Table";
import type { Change } from "@/pages/backends/ChangeDialog";
import { Facts } from "@/pages/backends/Facts";
import { type InstalledFilter, keeps } from "@/pages/backends/listing";
import type { Verb } from "@/pages/backends/offers";
import { Rail } from "@/pages/backends/Rail";
import { FILTERS } from "@/pages/backends/search";
import type { Known } from "@/pages/backends/useFleet";
import { versionWords } from "@/pages/backends/versions";
import { useAddress } from "@/shell/useAddress";
import { bytes, plural } from "@/text/format";

const COLUMNS = ["Node", "Version", "Before", "Size", "Installed"];

const WORDS = { user: "Installed by people", updates: "Updates", offline: "On nodes that are away" };

export function InstalledView({ known, onChange }: { known: Known; onChange: (change: Change) => void }) {
  const [search, say] = useAddress("/backends");
  const { installed } = known.fleet;
  const q = search.q ?? "";
  const shown = installed
    .filter((one) => keeps(search.filter, one))
    .filter((one) => one.Name.toLowerCase().includes(q.trim().toLowerCase()));
  const chosen = installed.find((one) => one.Name === search.backend);
  const choose = (backend: string | undefined) => say({ backend });
  const count = (filter: InstalledFilter) => installed.filter((one) => keeps(filter, one)).length;
  return (
    <div className="stack">
      <div className="row">
        <Search
          label="Search installed backends"
          value={q}
          onChange={(value) => say({ q: value || undefined }, true)}
        />
        <Segments
          label="Filter"
          value={search.filter ?? "all"}
          options={[
            { value: "all" as const, label: "All", count: installed.length },
            ...FILTERS.map((value) => ({ value, label: WORDS[value], count: count(value) })),
          ]}
          onChange={(value) => say({ filter: value === "all" ? undefined : value }, true)}
        />
      </div>
      {shown.length === 0 ? (
        <Empty title={installed.length ? "Nothing installed is like that." : "No backend is installed yet."}>
          {installed.length ? "Choose another filter." : "The catalog shows what there is."}
        </Empty>
      ) : (
        <Rail
          label="Installed backends"
          groups={[
            { title: "With an update", items: shown.filter(isBehind).map(item) },
            {
              title: "Nodes differ",
              items: shown.filter((one) => one.has_upgrade && !isBehind(one)).map(item),
            },
            { title: "Up to date", items: shown.filter((one) => !one.has_upgrade).map(item) },
          ]}
          chosen={chosen?.Name}
          onChoose={choose}
        >
          {chosen ? (
            <Detail backend={chosen} onChange={onChange} />
          ) : (
            <Empty title="Choose a backend to see where it is." />
          )}
        </Rail>
      )}
    </div>
  );
}

function item(backend: InstalledBackendOut) {
  return {
    id: backend.Name,
    name: backend.Name,
    note: versionWords(backend.Nodes),
    marks: (
      <>
        {backend.Nodes.some((place) => place.drifts) && <Tag tone="warn">drift</Tag>}
        {isBehind(backend) && <Tag tone="busy">{backend.available_version || "newer image"}</Tag>}
        {backend.IsSystem && <Tag>system</Tag>}
      </>
    ),
  };
}

function Detail({ backend, onChange }: { backend: InstalledBackendOut; onChange: (change: Change) => void }) {
  const want = (verb: Verb, word: string) =>
    onChange({ verb, backend: backend.Name, title: `${word} ${backend.Name}`, nodes: null });
  const newest = backend.Nodes.map((place) => place.installed_at ?? "")
    .sort()
    .at(-1);
  return (
    <Panel
      title={backend.Name}
      actions={backend.has_upgrade && <Pill tone="busy">{upgradeWord(backend)}</Pill>}
    >
      {backend.IsSystem ? (
        <p className="soft">It came with the machines. Corral uses it and never changes it.</p>
      ) : (
        <div className="row">
          <Button kind={backend.has_upgrade ? "primary" : "plain"} onClick={() => want("upgrade", "Upgrade")}>
            Upgrade
          </Button>
          <Button onClick={() => want("reinstall", "Reinstall")}>Reinstall</Button>
          <Button
            disabled={!backend.Nodes.some((place) => place.previous_version)}
            onClick={() => want("rollback", "Roll back")}
          >
            Roll back
          </Button>
          <Button kind="danger" onClick={() => want("delete", "Remove")}>
            Remove
          </Button>
        </div>
      )}
      <Facts
        facts={[
          ["Installed", versionWords(backend.Nodes)],
          ["Newest", backend.available_version],
          ["Upgrade", backend.upgrade_summary],
          ["Picked by", backend.meta],
          ["Gallery", backend.gallery || "none: from an address"],
          ["Source", backend.Nodes[0]?.uri ?? ""],
          ["Digest", backend.Nodes[0]?.digest ?? ""],
          ["Last change", newest ? <Ago key="at" at={newest} /> : ""],
        ]}
      />
      <Table columns={COLUMNS}>
        <tbody>
          {backend.Nodes.map((place) => (
            <tr key={place.node_id}>
              <td>
                {place.node_name}{" "}
                {place.node_status !== "healthy" && <NodeStatus status={place.node_status} />}
              </td>
              <td className="number">
                {place.version || "–"} {place.has_upgrade && `→ ${place.upgrade_to || "newer image"} `}
                {place.drifts && <Tag tone="warn">drift</Tag>}
              </td>
              <td className="number">{place.previous_version || "–"}</td>
              <td className="number">{bytes(place.size_bytes)}</td>
              <td>
                <Ago at={place.installed_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Panel>
  );
}

function isBehind(backend: InstalledBackendOut): boolean {
  return backend.Nodes.some((place) => place.has_upgrade);
}

function upgradeWord(backend: InstalledBackendOut): string {
  if (!isBehind(backend)) return "nodes differ";
  const behind = plural(backend.Nodes.filter((place) => place.has_upgrade).length, "node");
  return `${backend.available_version || "newer image"} for ${behind}`;
}
