// The MCP servers whose tools the jobs of a task may use: declared by admins, and at addresses of the caller.
import { useQuery } from "@tanstack/react-query";
import { Checkbox, Select, TextField } from "@/kit/fields";
import { PairFields } from "@/kit/PairFields";
import { nextId } from "@/kit/pairs";
import { mcpServers } from "@/pages/access/mcpServers";
import { LineGroups } from "@/pages/tasks/form/LineGroups";
import type { SectionProps } from "@/pages/tasks/TaskFormPage";
import type { ServerLine } from "@/pages/tasks/taskForm";
import { useCaller } from "@/pages/tasks/useCaller";

export function ToolSection({ form, faults, set }: SectionProps) {
  const { servers } = form;
  return (
    <LineGroups
      title="Tools"
      note="MCP servers whose tools the model may call. Without any, it only answers."
      noun="server"
      addLabel="Add server at an address"
      lines={servers}
      make={(): ServerLine => ({
        id: nextId(servers),
        name: "",
        url: "",
        transport: "http",
        token: "",
        headers: [],
      })}
      onChange={(servers) => set({ servers })}
      before={<DeclaredServers form={form} faults={faults} set={set} />}
    >
      {(line, place, change) => (
        <>
          <div className="tasks-line">
            <Select
              label="Transport"
              value={line.transport}
              onChange={(event) => change({ transport: event.target.value as "http" | "sse" })}
            >
              <option value="http">HTTP</option>
              <option value="sse">SSE</option>
            </Select>
            <TextField
              label="Address"
              type="url"
              value={line.url}
              error={faults[`servers.${place}.url`] ?? null}
              placeholder="https://example.org/mcp"
              onChange={(event) => change({ url: event.target.value })}
            />
          </div>
          <div className="columns">
            <TextField
              label="Name"
              hint="Names of its tools begin with it. Empty: made from the address."
              value={line.name}
              maxLength={50}
              onChange={(event) => change({ name: event.target.value })}
            />
            <TextField
              label="Token"
              hint="A reference to a stored secret, sent as a bearer token."
              value={line.token}
              error={faults[`servers.${place}.token`] ?? null}
              placeholder="secret:NAME"
              onChange={(event) => change({ token: event.target.value })}
            />
          </div>
          <PairFields
            label="Headers"
            noun="header"
            error={faults[`servers.${place}.headers`]}
            namePlaceholder="X-Api-Key"
            valuePlaceholder="secret:NAME"
            pairs={line.headers}
            onChange={(headers) => change({ headers })}
          />
        </>
      )}
    </LineGroups>
  );
}

function DeclaredServers({ form, set }: SectionProps) {
  const { hasStream } = useCaller();
  const { data = [] } = useQuery(mcpServers(hasStream));
  const names = new Set(data.map((server) => server.name));
  // A server that was deleted stays visible: the task cannot be saved with it.
  const gone = form.declared.filter((name) => !names.has(name));
  if (data.length === 0 && gone.length === 0)
    return <p className="small soft">No MCP servers are declared in this cluster.</p>;
  const toggle = (name: string, isOn: boolean) =>
    set({ declared: isOn ? [...form.declared, name] : form.declared.filter((one) => one !== name) });
  return (
    <fieldset className="tasks-group">
      <legend>Declared servers</legend>
      {data.map((server) => (
        <Checkbox
          key={server.name}
          label={server.name}
          hint={server.description}
          checked={form.declared.includes(server.name)}
          onChange={(event) => toggle(server.name, event.target.checked)}
        />
      ))}
      {gone.map((name) => (
        <Checkbox
          key={name}
          label={name}
          hint="is not declared any more"
          checked
          onChange={() => toggle(name, false)}
        />
      ))}
    </fieldset>
  );
}
