// Writes src/api/schema.d.ts from the API's own description; with --check it only says whether it is current.
// Error answers are the same everywhere and known to src/api/client.ts, so they are left out, as are routes that no page asks.
import { readFile, writeFile } from "node:fs/promises";
import openapi, { astToString } from "openapi-typescript";

const source = new URL("../../docs/reference/openapi.json", import.meta.url);
const target = new URL("../src/api/schema.d.ts", import.meta.url);

const KEPT = /^\/(api\/(?!node\/)|backends$|models\/toggle-|v1\/(mcp\/servers\/|files|batches))/;

const description = JSON.parse(await readFile(source, "utf8"));
for (const [path, methods] of Object.entries(description.paths)) {
  if (!KEPT.test(path)) {
    delete description.paths[path];
    continue;
  }
  for (const operation of Object.values(methods)) {
    delete operation.description;
    delete operation.summary;
    for (const status of Object.keys(operation.responses ?? {})) {
      if (Number(status) >= 400) delete operation.responses[status];
    }
  }
}
withoutExamples(description.components);
const nodes = await openapi(description, {
  alphabetize: true,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true,
});
const text = `// Written by \`npm run types\` from docs/reference/openapi.json. Do not edit by hand.\n${astToString(nodes)}`;

if (process.argv.includes("--check")) {
  const current = await readFile(target, "utf8").catch(() => "");
  if (current !== text) {
    console.error(
      "ui/src/api/schema.d.ts is not what the API says now: run `make docs`, then `npm run types` in ui/.",
    );
    process.exit(1);
  }
} else {
  await writeFile(target, text);
}

function withoutExamples(part) {
  if (part === null || typeof part !== "object") return;
  delete part.examples;
  for (const value of Object.values(part)) withoutExamples(value);
}
