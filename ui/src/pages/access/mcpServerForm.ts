// Converts the form of a declared MCP server to the body of a request and back. Pure.
import type { DeclaredServerIn, DeclaredServerOut } from "@/api/schema";
import { findPairFault, makePairs, type Pair, readPairs } from "@/kit/pairs";

export type Transport = DeclaredServerIn["transport"];

export interface McpServerForm {
  name: string;
  description: string;
  transport: Transport;
  command: string;
  /** One argument per line: an argument may have spaces. */
  args: string;
  cwd: string;
  env: Pair[];
  url: string;
  headers: Pair[];
}

export const TRANSPORT_WORDS: Record<string, string> = {
  stdio: "program",
  http: "HTTP",
  sse: "SSE",
};

const readText = (value: unknown): string => (typeof value === "string" ? value : "");
const readValues = (value: unknown): Record<string, string> =>
  (typeof value === "object" && value !== null ? value : {}) as Record<string, string>;

export function makeServerForm(server: DeclaredServerOut | null): McpServerForm {
  const config = server?.config ?? {};
  return {
    name: server?.name ?? "",
    description: server?.description ?? "",
    transport: (server?.transport ?? "stdio") as Transport,
    command: readText(config.command),
    args: Array.isArray(config.args) ? config.args.join("\n") : "",
    cwd: readText(config.cwd),
    env: makePairs(readValues(config.env)),
    url: readText(config.url),
    headers: makePairs(readValues(config.headers)),
  };
}

/** Only what belongs to the transport is sent: a program has no address, and an address no program. */
export function makeServerBody(form: McpServerForm): DeclaredServerIn {
  const isProgram = form.transport === "stdio";
  return {
    transport: form.transport,
    description: form.description.trim(),
    command: isProgram ? form.command.trim() : "",
    args: isProgram ? form.args.split("\n").filter((line) => line.trim() !== "") : [],
    cwd: isProgram ? form.cwd.trim() : "",
    env: isProgram ? readPairs(form.env) : {},
    url: isProgram ? "" : form.url.trim(),
    headers: isProgram ? {} : readPairs(form.headers),
  };
}

export type McpServerFaults = Partial<Record<keyof McpServerForm, string>>;

/** `taken` are the names of other servers: declaring one of them again would replace it. */
export function findServerFaults(form: McpServerForm, taken: readonly string[]): McpServerFaults {
  const faults: McpServerFaults = {};
  const name = form.name.trim();
  if (name === "") faults.name = "A server needs a name.";
  else if (taken.includes(name)) faults.name = `There is a server ${name} already. Edit that one.`;
  if (form.transport === "stdio") {
    if (form.command.trim() === "") faults.command = "A server that is a program needs a command.";
    const fault = findPairFault(form.env, "variable");
    if (fault) faults.env = fault;
  } else {
    if (!/^https?:\/\/[^/]/i.test(form.url.trim()))
      faults.url = "An address begins with http:// or https://.";
    const fault = findPairFault(form.headers, "header");
    if (fault) faults.headers = fault;
  }
  return faults;
}

/** What a row shows of how a server is declared: the command line, or the address. */
export function describeServer(server: DeclaredServerOut): string {
  const form = makeServerForm(server);
  if (form.transport !== "stdio") return form.url;
  return [form.command, ...form.args.split("\n")].filter(Boolean).join(" ");
}

export function filterServers(servers: readonly DeclaredServerOut[], term: string): DeclaredServerOut[] {
  const word = term.trim().toLowerCase();
  return servers.filter((server) => `${server.name} ${server.description}`.toLowerCase().includes(word));
}
