// Beside each text file of the built page, what browsers are sent: the same as .br and .gz.
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const built =
  process.env.PAGE_OUT ?? fileURLToPath(new URL("../../src/corral/api/page/built", import.meta.url));
const TEXT = new Set([".html", ".js", ".css", ".svg", ".json"]);
const QUALITY = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };

for (const entry of await readdir(built, { recursive: true, withFileTypes: true })) {
  const file = path.join(entry.parentPath, entry.name);
  if (!entry.isFile() || !TEXT.has(path.extname(file))) continue;
  const content = await readFile(file);
  await writeFile(`${file}.br`, await promisify(brotliCompress)(content, QUALITY));
  await writeFile(`${file}.gz`, await promisify(gzip)(content, { level: 9 }));
}
