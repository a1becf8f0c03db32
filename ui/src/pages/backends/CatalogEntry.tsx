// One entry of the catalog.
import { useQuery } from "@tanstack/react-query";
import type { CatalogEntryOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Panel } from "@/kit/Panel";
import { Pill, Tag } from "@/kit/status";
import type { ChangeDraft } from "@/pages/backends/ChangeDialog";
import { useCases } from "@/pages/backends/calls";
import { Facts } from "@/pages/backends/Facts";
import { backendNodes, fitsNode } from "@/pages/backends/families";
import type { BackendVerb } from "@/pages/backends/offers";
import type { FleetQueries } from "@/pages/backends/useFleet";
import { joinWords, plural } from "@/text/format";

interface CatalogEntryProps {
  entry: CatalogEntryOut;
  known: FleetQueries;
  target: string | undefined;
  onChange: (change: ChangeDraft) => void;
}

const NAMES_SHOWN = 6;

export function CatalogEntry({ entry, known, target, onChange }: CatalogEntryProps) {
  const calls = useQuery(useCases).data?.[entry.name] ?? [];
  const able = backendNodes(known.fleet.nodes).filter((node) => fitsNode(entry, node));
  const places = entry.nodes ?? [];
  const names = able.map((node) => node.name);
  return (
    <Panel
      title={entry.name}
      note={entry.description}
      actions={
        <>
          {entry.isUnverified && (
            <Tag tone="warn" title="Not verified on Corral's test hardware.">
              unverified
            </Tag>
          )}
          {entry.isDevelopment && <Tag>development</Tag>}
          {entry.installed && <Pill tone="good">on {plural(places.length, "node")}</Pill>}
        </>
      }
    >
      <Actions entry={entry} known={known} target={target} onChange={onChange} />
      {entry.isUnverified && (
        <p className="small soft">Not verified on Corral's test hardware. Try one node first.</p>
      )}
      <Facts
        facts={[
          ["API", calls.join(", ")],
          ["Versions", versionsOf(entry, known).slice(0, 8).join(", ")],
          ["Licence", entry.license],
          ["Gallery", entry.gallery],
          ["Build of", entry.metaBackendFor ?? ""],
          [
            "Builds",
            Object.entries(entry.capabilities ?? {})
              .map(([word, build]) => `${word}: ${build}`)
              .join(", "),
          ],
          [
            "Compatible nodes",
            names.length > NAMES_SHOWN
              ? `${joinWords(names.slice(0, NAMES_SHOWN))} and ${names.length - NAMES_SHOWN} more`
              : joinWords(names) || "none of the current nodes",
          ],
          [
            "Installed on",
            joinWords(places.map((place) => `${place.node_name} (${place.version || "no version"})`)),
          ],
          ["Tags", entry.tags?.join(", ") ?? ""],
        ]}
      />
      {(entry.urls?.length ?? 0) > 0 && (
        <ul className="plain small">
          {entry.urls?.map((url) => (
            <li key={url}>
              <a href={url} rel="noreferrer" target="_blank">
                {url}
              </a>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** The versions of an entry; for one that only groups builds, those of its builds. */
function versionsOf(entry: CatalogEntryOut, known: FleetQueries): string[] {
  if (!entry.isMeta) return entry.versions ?? [];
  const builds = known.fleet.entries.filter((one) => one.metaBackendFor === entry.name);
  return [...new Set(builds.flatMap((one) => one.versions ?? []))];
}

function Actions({ entry, known, target, onChange }: CatalogEntryProps) {
  const openChange = (verb: BackendVerb, title: string, nodes: string[] | null) =>
    onChange({ verb, backend: verb === "install" ? entry.id : entry.name, title, nodes });
  const node = known.fleet.nodes.find((one) => one.name === target || one.id === target);
  if (node) {
    const has = entry.nodes?.some((place) => place.node_id === node.id) ?? false;
    return (
      <div className="row">
        {has ? (
          <>
            <Button onClick={() => openChange("reinstall", `Reinstall ${entry.name}`, [node.id])}>
              Reinstall on {node.name}
            </Button>
            <Button kind="danger" onClick={() => openChange("delete", `Remove ${entry.name}`, [node.id])}>
              Remove from {node.name}
            </Button>
          </>
        ) : (
          <Button kind="primary" onClick={() => openChange("install", `Install ${entry.name}`, [node.id])}>
            Install on {node.name}
          </Button>
        )}
      </div>
    );
  }
  const missing = backendNodes(known.fleet.nodes)
    .filter((one) => one.status === "healthy" && fitsNode(entry, one))
    .filter((one) => !entry.nodes?.some((place) => place.node_id === one.id))
    .map((one) => one.id);
  return (
    <div className="row">
      {!entry.metaBackendFor && (
        <Button kind="primary" onClick={() => openChange("install", `Install ${entry.name}`, null)}>
          Install on all nodes
        </Button>
      )}
      <Button onClick={() => openChange("install", `Install ${entry.name}`, missing)}>Choose nodes</Button>
      {entry.installed && (
        <>
          <Button onClick={() => openChange("upgrade", `Upgrade ${entry.name}`, null)}>Upgrade</Button>
          <Button kind="danger" onClick={() => openChange("delete", `Remove ${entry.name}`, null)}>
            Remove
          </Button>
        </>
      )}
    </div>
  );
}
