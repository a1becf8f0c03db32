// The form that declares an MCP server, or changes one: a program with its arguments and environment, or an address.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { DeclaredServerOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { SegmentedControl, TextArea, TextField } from "@/kit/fields";
import { PairFields } from "@/kit/PairFields";
import { useToast } from "@/kit/toasts";
import {
  findServerFaults,
  type McpServerFaults,
  type McpServerForm,
  makeServerBody,
  makeServerForm,
} from "@/pages/access/mcpServerForm";
import { declareServer } from "@/pages/access/mcpServers";

interface McpServerDialogProps {
  /** The server to change; null for a new one. */
  server: DeclaredServerOut | null;
  /** Names that a new server may not have. */
  taken: readonly string[];
  onClose: () => void;
}

const TRANSPORTS = [
  { value: "stdio", label: "Program" },
  { value: "http", label: "HTTP" },
  { value: "sse", label: "SSE" },
] as const;

export function McpServerDialog({ server, taken, onClose }: McpServerDialogProps) {
  const toast = useToast();
  const cache = useQueryClient();
  const [form, setForm] = useState(() => makeServerForm(server));
  const [faults, setFaults] = useState<McpServerFaults>({});
  const set = (part: Partial<McpServerForm>) => setForm((was) => ({ ...was, ...part }));
  const submission = useMutation({
    mutationFn: () => declareServer(form.name.trim(), makeServerBody(form)),
    onSuccess: (stored) => {
      toast(
        server
          ? `Saved ${stored.name}. Runs that begin from now on use it so.`
          : `Declared MCP server ${stored.name}.`,
      );
      void cache.invalidateQueries({ queryKey: ["mcp-servers"] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const found = findServerFaults(form, taken);
    setFaults(found);
    submission.reset();
    if (Object.keys(found).length === 0) submission.mutate();
  };
  return (
    <Dialog title={server ? `Edit ${server.name}` : "New MCP server"} onClose={onClose} wide>
      <form className="stack" onSubmit={submit} noValidate>
        <div className="columns">
          {!server && (
            <TextField
              label="Name"
              hint="Agents and tasks choose it; names of its tools begin with it."
              value={form.name}
              error={faults.name ?? null}
              maxLength={50}
              placeholder="clock"
              autoFocus
              onChange={(event) => set({ name: event.target.value })}
            />
          )}
          <TextField
            label="Description"
            hint="For people who choose it."
            value={form.description}
            maxLength={1000}
            placeholder="Tells the time in any zone"
            onChange={(event) => set({ description: event.target.value })}
          />
        </div>
        <SegmentedControl
          label="Transport"
          value={form.transport}
          options={TRANSPORTS}
          onChange={(transport) => set({ transport })}
        />
        {form.transport === "stdio" ? (
          <ProgramFields form={form} faults={faults} set={set} />
        ) : (
          <AddressFields form={form} faults={faults} set={set} />
        )}
        <ErrorNotice error={submission.error} />
        <div className="row access-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={submission.isPending}>
            {server ? "Save" : "Declare server"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface FieldsProps {
  form: McpServerForm;
  faults: McpServerFaults;
  set: (part: Partial<McpServerForm>) => void;
}

function ProgramFields({ form, faults, set }: FieldsProps) {
  return (
    <>
      <div className="columns">
        <TextField
          label="Command"
          hint="Must be installed on the agent nodes."
          value={form.command}
          error={faults.command ?? null}
          placeholder="uvx"
          onChange={(event) => set({ command: event.target.value })}
        />
        <TextField
          label="Working folder"
          hint="Empty: a folder of its own."
          value={form.cwd}
          placeholder="/srv/files"
          onChange={(event) => set({ cwd: event.target.value })}
        />
      </div>
      <TextArea
        label="Arguments"
        hint="One per line."
        rows={3}
        placeholder={"mcp-server-time\n--local-timezone=Europe/Rome"}
        value={form.args}
        onChange={(event) => set({ args: event.target.value })}
      />
      <PairFields
        label="Environment"
        noun="variable"
        hint="The whole environment of the program. A secret is a reference: cluster-secret:NAME."
        error={faults.env}
        namePlaceholder="API_TOKEN"
        valuePlaceholder="cluster-secret:NAME"
        pairs={form.env}
        onChange={(env) => set({ env })}
      />
    </>
  );
}

function AddressFields({ form, faults, set }: FieldsProps) {
  return (
    <>
      <TextField
        label="Address"
        hint="Of a declared server, it may be in a private network."
        type="url"
        value={form.url}
        error={faults.url ?? null}
        placeholder="https://tools.example.org/mcp"
        onChange={(event) => set({ url: event.target.value })}
      />
      <PairFields
        label="Headers"
        noun="header"
        hint="A secret is a reference: cluster-secret:NAME."
        error={faults.headers}
        namePlaceholder="Authorization"
        valuePlaceholder="Bearer cluster-secret:NAME"
        pairs={form.headers}
        onChange={(headers) => set({ headers })}
      />
    </>
  );
}
