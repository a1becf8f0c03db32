// The files of a model: their contents, and the libraries and nodes that hold them.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { cluster } from "@/api/queries";
import type { FileOut, ModelOut } from "@/api/schema";
import { EmptyState, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { Tag } from "@/kit/status";
import { rightColumn, Table } from "@/kit/Table";
import { filesQuery } from "@/pages/models/calls";
import { bytes } from "@/text/format";

const COLUMNS = ["File", rightColumn("Size"), "Content", "On frontends", "On nodes"];

const SHORT = 12;

export function Files({ model }: { model: ModelOut }) {
  const held = useQuery(filesQuery(model.name));
  const { data: here } = useQuery(cluster);
  const names = new Map((here?.frontends ?? []).map((one) => [one.id, `${one.host}:${one.port}`]));
  if (model.files == null) return <Sources model={model} />;
  if (model.files.length === 0)
    return <EmptyState title="This model has no files.">Its engine needs none.</EmptyState>;
  const files = model.files;
  return (
    <QueryView query={held}>
      {(contents) => {
        const bySha = new Map(contents.map((one) => [one.sha256, one]));
        return (
          <Panel
            title="Files"
            note={`${bytes(model.payload_bytes)} in total. Identical files are stored once.`}
          >
            <Table columns={COLUMNS}>
              <tbody>
                {files.map((file) => (
                  <tr key={file.path}>
                    <td>{file.path}</td>
                    <td className="right number">{bytes(file.size_bytes)}</td>
                    <td>
                      <code title={file.sha256}>{file.sha256.slice(0, SHORT)}</code>
                    </td>
                    <td>
                      <Frontends held={bySha.get(file.sha256)} names={names} />
                    </td>
                    <td>
                      <Nodes held={bySha.get(file.sha256)} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </Table>
          </Panel>
        );
      }}
    </QueryView>
  );
}

function Frontends({ held, names }: { held: FileOut | undefined; names: Map<string, string> }) {
  if (!held || held.holders.length === 0)
    return <span className="soft">none; downloaded again on demand</span>;
  return (
    <span className="row">
      {held.holders.map((holder) => (
        <Tag key={holder.name} title={holder.is_shared ? "Shared storage of all frontends." : holder.name}>
          {holder.is_shared
            ? `${holder.name} (shared)`
            : (names.get(holder.name) ?? holder.name.slice(0, SHORT))}
        </Tag>
      ))}
    </span>
  );
}

function Nodes({ held }: { held: FileOut | undefined }) {
  const nodes = held?.nodes ?? [];
  if (nodes.length === 0) return <span className="soft">none yet</span>;
  return (
    <span className="row">
      {nodes.map((node) => (
        <Link key={node} className="small" to="/nodes/$node" params={{ node }}>
          {node}
        </Link>
      ))}
    </span>
  );
}

/** The sources of files that are not fetched yet. */
function Sources({ model }: { model: ModelOut }) {
  const files = Array.isArray(model.config.files) ? (model.config.files as Record<string, unknown>[]) : [];
  return (
    <Panel title="Files" note="Not downloaded yet. Files are downloaded on install or on the first load.">
      <ul className="models-list">
        {files.map((file) => (
          <li key={JSON.stringify(file)}>
            <code>{String(file.path ?? "all")}</code>{" "}
            <span className="soft">from {String(file.uri ?? "several parts")}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
