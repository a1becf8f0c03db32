// Edits the MCP servers of an agent. Tokens are references to secrets, never the secrets themselves.
import { Link } from "@tanstack/react-router";
import { type ReactNode, useId } from "react";
import { Button } from "@/kit/Button";
import { Select, TextField } from "@/kit/fields";
import { EMPTY_SERVER, type ServerDraft } from "@/pages/agents/form";
import { PairsField } from "@/pages/agents/PairsField";

interface McpServersFieldProps {
  label: string;
  hint: ReactNode;
  error: string | null;
  servers: readonly ServerDraft[];
  onChange: (servers: ServerDraft[]) => void;
}

export function McpServersField({ label, hint, error, servers, onChange }: McpServersFieldProps) {
  const id = useId();
  const change = (place: number, part: Partial<ServerDraft>) =>
    onChange(servers.map((server, other) => (other === place ? { ...server, ...part } : server)));
  return (
    <fieldset
      className={`form-group form-wide ${error ? "form-invalid" : ""}`}
      aria-describedby={`${id}-hint`}
    >
      <legend>{label}</legend>
      <p className="small soft" id={`${id}-hint`}>
        {hint} Store tokens as{" "}
        <Link to="/access" search={{ tab: "secrets" }}>
          secrets
        </Link>{" "}
        and refer to them here.
      </p>
      {servers.map((server, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a new server has no name yet
        <div className="form-server" key={place} role="group" aria-label={`MCP server ${place + 1}`}>
          <div className="form-fields">
            <TextField
              label="Address"
              placeholder="https://tools.example/mcp"
              maxLength={2000}
              value={server.url}
              aria-invalid={error && !server.url.trim() ? true : undefined}
              onChange={(event) => change(place, { url: event.target.value })}
            />
            <TextField
              label="Name"
              hint="Names of its tools begin with it. Empty: made from the address."
              maxLength={50}
              value={server.name}
              onChange={(event) => change(place, { name: event.target.value })}
            />
            <TextField
              label="Token"
              hint="Sent as a bearer token. A reference, not the token itself."
              placeholder="secret:tools"
              maxLength={200}
              value={server.token}
              onChange={(event) => change(place, { token: event.target.value })}
            />
            <Select
              label="Transport"
              value={server.transport}
              onChange={(event) => change(place, { transport: event.target.value })}
            >
              <option value="http">streamable HTTP</option>
              <option value="sse">SSE, the older form</option>
            </Select>
            <PairsField
              label="Headers"
              hint="Secret values are references."
              noun="header"
              keyLabel="Name"
              keyExample="X-Team"
              valueExample="herd"
              pairs={server.headers}
              onChange={(headers) => change(place, { headers })}
            />
          </div>
          <div>
            <Button
              small
              icon="trash"
              aria-label={`Remove MCP server ${place + 1}`}
              onClick={() => onChange(servers.filter((_, other) => other !== place))}
            >
              Remove
            </Button>
          </div>
        </div>
      ))}
      {error && (
        <p className="small bad-text" role="alert">
          {error}
        </p>
      )}
      <div>
        <Button small icon="plus" onClick={() => onChange([...servers, EMPTY_SERVER])}>
          Add MCP server
        </Button>
      </div>
    </fieldset>
  );
}
