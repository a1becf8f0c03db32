// The list of installed backends.
import type { InstalledBackendOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { EmptyState, Panel } from "@/kit/Panel";
import { RelativeTime } from "@/kit/RelativeTime";
import { NodeStatus, Pill, Tag } from "@/kit/status";
import { Table } from "@/kit/Table";
import type { ChangeDraft } from "@/pages/backends/ChangeDialog";
import { Facts } from "@/pages/backends/Facts";
import { FilterRail } from "@/pages/backends/FilterRail";
import { type InstalledFilter, matchesInstalledFilter } from "@/pages/backends/listing";
import type { BackendVerb } from "@/pages/backends/offers";
import { FILTERS } from "@/pages/backends/search";
import type { FleetQueries } from "@/pages/backends/useFleet";
import { versionWords } from "@/pages/backends/versions";
import { usePageSearch } from "@/shell/usePageSearch";
import { bytes, plural } from "@/text/format";

const COLUMNS = ["Node", "Version", "Previous version", "Size", "Installed"];

const WORDS = { user: "User-installed", updates: "Updates", offline: "On unreachable nodes" };

export function InstalledView({
  known,
  onChange,
}: {
  known: FleetQueries;
  onChange: (change: ChangeDraft) => void;
}) {
  const [search, setSearch] = usePageSearch("/backends");
  const { installed } = known.fleet;
  const q = search.q ?? "";
  const shown = installed
    .filter((one) => matchesInstalledFilter(search.filter, one))
    .filter((one) => one.Name.toLowerCase().includes(q.trim().toLowerCase()));
  const chosen = installed.find((one) => one.Name === search.backend);
  const choose = (backend: string | undefined) => setSearch({ backend });
  const count = (filter: InstalledFilter) =>
    installed.filter((one) => matchesInstalledFilter(filter, one)).length;
  return (
    <div className="stack">
      <div className="row">
        <SearchField
          label="Search installed backends"
          value={q}
          onChange={(value) => setSearch({ q: value || undefined }, true)}
        />
        <SegmentedControl
          label="Filter"
          value={search.filter ?? "all"}
          options={[
            { value: "all" as const, label: "All", count: installed.length },
            ...FILTERS.map((value) => ({ value, label: WORDS[value], count: count(value) })),
          ]}
          onChange={(value) => setSearch({ filter: value === "all" ? undefined : value }, true)}
        />
      </div>
      {shown.length === 0 ? (
        <EmptyState
          title={installed.length ? "No installed backends match this filter." : "No backends installed yet."}
        >
          {installed.length ? "Change the filter." : "See the catalog."}
        </EmptyState>
      ) : (
        <FilterRail
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
            <BackendDetail backend={chosen} onChange={onChange} />
          ) : (
            <EmptyState title="Select a backend to see its details." />
          )}
        </FilterRail>
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

function BackendDetail({
  backend,
  onChange,
}: {
  backend: InstalledBackendOut;
  onChange: (change: ChangeDraft) => void;
}) {
  const openChange = (verb: BackendVerb, word: string) =>
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
        <p className="soft">Installed with the machine. Corral uses it but never changes it.</p>
      ) : (
        <div className="row">
          <Button
            kind={backend.has_upgrade ? "primary" : "plain"}
            onClick={() => openChange("upgrade", "Upgrade")}
          >
            Upgrade
          </Button>
          <Button onClick={() => openChange("reinstall", "Reinstall")}>Reinstall</Button>
          <Button
            disabled={!backend.Nodes.some((place) => place.previous_version)}
            onClick={() => openChange("rollback", "Roll back")}
          >
            Roll back
          </Button>
          <Button kind="danger" onClick={() => openChange("delete", "Remove")}>
            Remove
          </Button>
        </div>
      )}
      <Facts
        facts={[
          ["Installed", versionWords(backend.Nodes)],
          ["Latest", backend.available_version],
          ["Upgrade", backend.upgrade_summary],
          ["Picked by", backend.meta],
          ["Gallery", backend.gallery || "none (installed from a URL)"],
          ["Source", backend.Nodes[0]?.uri ?? ""],
          ["Digest", backend.Nodes[0]?.digest ?? ""],
          ["Last change", newest ? <RelativeTime key="at" at={newest} /> : ""],
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
                <RelativeTime at={place.installed_at} />
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
