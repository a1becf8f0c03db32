import { expect, test } from "vitest";
import type { DeclaredServerOut } from "@/api/schema";
import {
  describeServer,
  filterServers,
  findServerFaults,
  makeServerBody,
  makeServerForm,
} from "@/pages/access/mcpServerForm";

const CLOCK: DeclaredServerOut = {
  name: "clock",
  description: "Tells the time",
  transport: "stdio",
  config: {
    transport: "stdio",
    command: "uvx",
    args: ["mcp-server-time", "--zone=Europe/Rome and more"],
    env: { TOKEN: "cluster-secret:clock" },
    cwd: "/srv",
    url: "",
    headers: {},
  },
};
const HAY: DeclaredServerOut = {
  name: "hay",
  description: "",
  transport: "http",
  config: { url: "https://hay.example/mcp", headers: { "X-Api-Key": "cluster-secret:hay" } },
};

test("a server that is saved without a change stays as it was", () => {
  expect(makeServerBody(makeServerForm(CLOCK))).toEqual({ ...CLOCK.config, description: "Tells the time" });
  expect(makeServerBody(makeServerForm(HAY))).toMatchObject({
    transport: "http",
    url: "https://hay.example/mcp",
    headers: { "X-Api-Key": "cluster-secret:hay" },
    command: "",
    args: [],
  });
});

test("another transport leaves nothing of the one before", () => {
  const body = makeServerBody({ ...makeServerForm(CLOCK), transport: "sse", url: "https://clock.example" });
  expect(body).toMatchObject({ command: "", args: [], env: {}, cwd: "", url: "https://clock.example" });
});

test("a missing value is named at its field, and a name that is taken is refused", () => {
  const empty = makeServerForm(null);
  expect(Object.keys(findServerFaults(empty, []))).toEqual(["name", "command"]);
  expect(
    Object.keys(findServerFaults({ ...empty, name: "hay", transport: "http", url: "hay" }, ["hay"])),
  ).toEqual(["name", "url"]);
  expect(findServerFaults(makeServerForm(CLOCK), ["hay"])).toEqual({});
});

test("a row shows the command line or the address, and the search finds names and descriptions", () => {
  expect(describeServer(CLOCK)).toBe("uvx mcp-server-time --zone=Europe/Rome and more");
  expect(describeServer(HAY)).toBe("https://hay.example/mcp");
  expect(filterServers([CLOCK, HAY], "TIME")).toEqual([CLOCK]);
});
