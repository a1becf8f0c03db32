// Compares versions for sorting and colours only: the server decides what an upgrade is.
import type { BackendUpgradeOut } from "@/api/schema";
import { plural } from "@/text/format";

const PRERELEASE_WORDS = [
  "dev",
  "nightly",
  "snapshot",
  "a",
  "alpha",
  "b",
  "beta",
  "c",
  "rc",
  "pre",
  "preview",
];

function parts(version: string): (number | string)[] {
  const plain = version
    .trim()
    .toLowerCase()
    .replace(/^[a-z][-_.]?(?=\d)/, "");
  return (plain.match(/\d+|[a-z]+/g) ?? []).map((part) => (/^\d/.test(part) ? Number(part) : part));
}

function rank(part: number | string | undefined): number {
  if (part === undefined) return 1;
  if (typeof part === "string") return PRERELEASE_WORDS.includes(part) ? 0 : 2;
  return part === 0 ? 1 : 3;
}

/** Positive if `one` is newer. */
export function compareVersions(one: string, other: string): number {
  const a = parts(one);
  const b = parts(other);
  if (a.length === 0 || b.length === 0) return Math.sign(a.length - b.length) || one.localeCompare(other);
  for (let place = 0; place < Math.max(a.length, b.length); place += 1) {
    const [x, y] = [a[place], b[place]];
    if (rank(x) !== rank(y)) return rank(x) - rank(y);
    if (typeof x === "number" && typeof y === "number" && x !== y) return x - y;
    if (typeof x === "string" && typeof y === "string" && x !== y) return x.localeCompare(y);
  }
  return 0;
}

/** Each version once, newest first. */
export function sortNewestFirst(versions: Iterable<string>): string[] {
  return [...new Set(versions)].filter((version) => version !== "").sort((a, b) => compareVersions(b, a));
}

export function isNewer(version: string, than: string): boolean {
  return version !== "" && compareVersions(version, than) > 0;
}

/** `2.0.0 on 2 nodes, 1.0.0 on 2 nodes`: every installed version, newest first. */
export function versionWords(places: readonly { version: string }[]): string {
  const counts = new Map<string, number>();
  for (const { version } of places) counts.set(version, (counts.get(version) ?? 0) + 1);
  const order = [...sortNewestFirst(counts.keys()), ...(counts.has("") ? [""] : [])];
  return order
    .map((version) => `${version || "no version"} on ${plural(counts.get(version) ?? 0, "node")}`)
    .join(", ");
}

interface UpgradeStep {
  from: string;
  to: string;
  nodes: string[];
}

/** The steps of an upgrade: from which version to which, on which nodes. Empty if no node is behind. */
export function upgradeSteps(found: Pick<BackendUpgradeOut, "nodes">): UpgradeStep[] {
  const steps = new Map<string, UpgradeStep>();
  for (const { from_version, to_version, node_name } of found.nodes ?? []) {
    const step = steps.get(from_version) ?? { from: from_version, to: to_version, nodes: [] };
    step.nodes.push(node_name);
    steps.set(from_version, step);
  }
  return [...steps.values()].sort((one, other) => compareVersions(other.from, one.from));
}

/** The version that a node with `place` would get; empty if it has that version already. */
export function findUpgrade(
  found: Pick<BackendUpgradeOut, "available_version" | "available_digest">,
  place: { version: string; digest: string },
): string {
  if (found.available_version)
    return isNewer(found.available_version, place.version) ? found.available_version : "";
  const isOther = found.available_digest !== "" && found.available_digest !== place.digest;
  return isOther ? "newer image" : "";
}
