// The MCP servers that admins have declared. Agents and tasks choose them by name.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { DeclaredServerOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Menu } from "@/kit/Menu";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { LabelledValue } from "@/pages/access/KeyRow";
import { McpServerDialog } from "@/pages/access/McpServerDialog";
import { describeServer, filterServers, TRANSPORT_WORDS } from "@/pages/access/mcpServerForm";
import { deleteServer, mcpServers } from "@/pages/access/mcpServers";
import { useHasScope } from "@/shell/me";
import { usePageSearch } from "@/shell/usePageSearch";

type ServerAction = { kind: "edit" | "delete"; server: DeclaredServerOut };

export function McpServerList() {
  const [{ q = "", new: isNew }, setSearch] = usePageSearch("/access");
  const isAdmin = useHasScope("admin");
  const query = useQuery(mcpServers(useHasScope("operate")));
  const [dialog, setDialog] = useState<ServerAction | null>(null);
  const close = () => setDialog(null);
  const taken = (query.data ?? []).map((server) => server.name);
  return (
    <>
      <QueryView query={query}>
        {(all) => {
          const shown = filterServers(all, q);
          if (shown.length === 0)
            return (
              <NoServers
                isFiltered={all.length > 0}
                onNew={isAdmin ? () => setSearch({ new: true }) : null}
              />
            );
          return (
            <ul className="plain access-list" aria-label="MCP servers">
              {shown.map((server) => (
                <ServerRow
                  key={server.name}
                  server={server}
                  onEdit={isAdmin ? () => setDialog({ kind: "edit", server }) : null}
                  onDelete={isAdmin ? () => setDialog({ kind: "delete", server }) : null}
                />
              ))}
            </ul>
          );
        }}
      </QueryView>
      {isNew && isAdmin && (
        <McpServerDialog server={null} taken={taken} onClose={() => setSearch({ new: undefined }, true)} />
      )}
      {dialog?.kind === "edit" && <McpServerDialog server={dialog.server} taken={[]} onClose={close} />}
      {dialog?.kind === "delete" && <DeleteServerDialog name={dialog.server.name} onClose={close} />}
    </>
  );
}

interface ServerRowProps {
  server: DeclaredServerOut;
  /** Null where the caller may not change it. */
  onEdit: (() => void) | null;
  onDelete: (() => void) | null;
}

function ServerRow({ server, onEdit, onDelete }: ServerRowProps) {
  const { name } = server;
  return (
    <li className="access-row access-secret" aria-label={name}>
      <div className="access-name">
        <strong>{name}</strong>
        <span>
          <Tag>{TRANSPORT_WORDS[server.transport] ?? server.transport}</Tag>
        </span>
      </div>
      <dl className="access-facts">
        <LabelledValue name="Description">{server.description || "none"}</LabelledValue>
        {server.config && (
          <LabelledValue name={server.transport === "stdio" ? "Command" : "Address"}>
            <code>{describeServer(server)}</code>
          </LabelledValue>
        )}
        <LabelledValue name="Changed">
          <RelativeTime at={server.updated_at} />
          {server.created_by && ` by ${server.created_by}`}
        </LabelledValue>
      </dl>
      <div className="row access-actions">
        {onEdit && (
          <Button small aria-label={`Edit ${name}`} onClick={onEdit}>
            Edit
          </Button>
        )}
        {onDelete && (
          <Menu
            label={`Actions for ${name}`}
            items={[{ label: "Delete", icon: "trash", danger: true, onSelect: onDelete }]}
          />
        )}
      </div>
    </li>
  );
}

function NoServers({ isFiltered, onNew }: { isFiltered: boolean; onNew: (() => void) | null }) {
  if (isFiltered)
    return <EmptyState title="No MCP servers match this search.">Change the search.</EmptyState>;
  return (
    <EmptyState title="No MCP servers are declared.">
      <p>
        An MCP server gives models tools: files, search, a database. A program runs on agent nodes, so only
        admins declare one; agents and tasks of everybody choose it by its name.
      </p>
      {onNew ? (
        <Button small icon="plus" onClick={onNew}>
          New MCP server
        </Button>
      ) : (
        <p>
          Only admins declare MCP servers. Your own agents and tasks may name servers at public addresses.
        </p>
      )}
    </EmptyState>
  );
}

function DeleteServerDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const toast = useToast();
  const cache = useQueryClient();
  return (
    <ConfirmDialog
      title={`Delete ${name}?`}
      verb={`Delete ${name}`}
      onConfirm={async () => {
        await deleteServer(name);
        toast(`Deleted MCP server ${name}.`);
        void cache.invalidateQueries({ queryKey: ["mcp-servers"] });
      }}
      onClose={onClose}
    >
      <p>Agents and tasks that use it fail from now on.</p>
    </ConfirmDialog>
  );
}
