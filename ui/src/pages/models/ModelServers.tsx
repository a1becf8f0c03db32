// The MCP servers of a model: the state, the tools and the error of each. Each has a query of its own, so that one that
// does not answer delays no other.
import { useQuery } from "@tanstack/react-query";
import type { ModelOut, ModelServerOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { EmptyState, Panel } from "@/kit/Panel";
import { LoadingLines } from "@/kit/QueryView";
import { Pill, Tag } from "@/kit/status";
import { Table } from "@/kit/Table";
import { serverQuery } from "@/pages/models/calls";
import { listServerNames } from "@/pages/models/servers";
import { plural } from "@/text/format";

const COLUMNS = ["Tool", "Description"];

export function ModelServers({ model }: { model: ModelOut }) {
  const names = listServerNames(model.config);
  if (names.length === 0)
    return (
      <EmptyState title="This model has no MCP servers.">
        Name some under “mcp” in its configuration. Calls of the model can then use their tools.
      </EmptyState>
    );
  return (
    <div className="stack">
      {names.map((name) => (
        <Server key={name} model={model} name={name} />
      ))}
    </div>
  );
}

function Server({ model, name }: { model: ModelOut; name: string }) {
  const query = useQuery(serverQuery(model.name, model.revision, name));
  const server = query.data;
  return (
    <Panel
      title={name}
      actions={
        <>
          {server && <Tag>{server.type}</Tag>}
          <State server={server} isFetching={query.isFetching} hasFailed={query.error !== null} />
          <Button small disabled={query.isFetching} onClick={() => void query.refetch()}>
            Check again
          </Button>
        </>
      }
      note={server && !server.error ? describeOffer(server) : undefined}
    >
      {query.error && <ErrorNotice error={query.error} />}
      {server?.error && <p role="alert">{server.error}</p>}
      {!server && !query.error && <LoadingLines lines={1} />}
      {server && (server.tool_details ?? []).length > 0 && <Tools server={server} />}
    </Panel>
  );
}

interface StateProps {
  server: ModelServerOut | undefined;
  isFetching: boolean;
  hasFailed: boolean;
}

function State({ server, isFetching, hasFailed }: StateProps) {
  if (isFetching) return <Pill tone="busy">connecting</Pill>;
  if (hasFailed || server?.error) return <Pill tone="bad">error</Pill>;
  return server ? <Pill tone="good">ready</Pill> : null;
}

function Tools({ server }: { server: ModelServerOut }) {
  return (
    <Table columns={COLUMNS}>
      <tbody>
        {(server.tool_details ?? []).map((tool) => (
          <tr key={tool.name}>
            <td>
              <code>{tool.name}</code> {tool.read_only && <Tag>read-only</Tag>}
            </td>
            <td>{tool.description}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

const describeOffer = (server: ModelServerOut): string =>
  [
    plural(server.tools.length, "tool"),
    plural(server.prompts.length, "prompt"),
    plural(server.resources.length, "resource"),
  ].join(", ");
