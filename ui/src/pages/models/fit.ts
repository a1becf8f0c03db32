// Whether a variant fits on a node, in a sentence for each. The server decides; this says why, as far as one can see.
import type { ModelPlanOut, NodeOut, VariantOut } from "@/api/schema";
import { bytes } from "@/text/format";

export interface Fit {
  node: string;
  fits: boolean;
  sentence: string;
}

export function memoryOf(node: NodeOut): { bytes: number | null; kind: string } {
  if (node.total_vram) return { bytes: node.vram_budget_bytes ?? node.total_vram, kind: "GPU memory" };
  return { bytes: node.total_ram ?? null, kind: "memory" };
}

/** What was found out about an address, as one variant of a gallery. */
export function asVariant(plan: ModelPlanOut): VariantOut {
  return {
    model: plan.name,
    backend: plan.backend,
    memory_bytes: plan.memory_bytes ?? null,
    fits: (plan.fits_on ?? []).length > 0,
    fits_on: plan.fits_on ?? [],
    is_base: true,
    reason: "",
  };
}

export function fitsOf(nodes: readonly NodeOut[], variant: VariantOut, payload: number | null): Fit[] {
  return nodes
    .filter((node) => node.node_type === "backend" && node.status !== "pending")
    .map((node) => fitOf(node, variant, payload))
    .sort((one, other) => Number(other.fits) - Number(one.fits) || one.node.localeCompare(other.node));
}

function fitOf(node: NodeOut, variant: VariantOut, payload: number | null): Fit {
  const told = (fits: boolean, sentence: string): Fit => ({ node: node.name, fits, sentence });
  const has = memoryOf(node);
  const needs = variant.memory_bytes ?? null;
  if (node.status === "offline") return told(false, "It is offline now.");
  if (!(variant.fits_on ?? []).includes(node.name)) {
    if (!node.schedulable) return told(false, `It takes nothing new: ${node.status}.`);
    if (needs !== null && has.bytes !== null && needs > has.bytes)
      return told(
        false,
        `Too small: it has ${bytes(has.bytes)} of ${has.kind}, about ${bytes(needs)} are needed.`,
      );
    return told(false, `There is no build of ${variant.backend} for it, or a rule keeps the model away.`);
  }
  if (!node.schedulable) return told(false, `It would fit, but the node takes nothing new: ${node.status}.`);
  if (payload && node.available_disk != null && payload > node.available_disk)
    return told(false, `Its disk has ${bytes(node.available_disk)} free, and ${bytes(payload)} are needed.`);
  if (needs === null) return told(true, "Probably: nobody knows how much memory it needs.");
  const free = node.total_vram ? node.available_vram : node.available_ram;
  const room = free != null && free < needs ? " Something else has to make room first." : "";
  return told(true, `About ${bytes(needs)} of ${bytes(has.bytes)} ${has.kind}.${room}`);
}

const ALL: Record<number, string> = { 1: "the one node there is", 2: "both nodes" };

/** One sentence for all nodes. */
export function verdict(fits: readonly Fit[]): string {
  const good = fits.filter((fit) => fit.fits).length;
  if (fits.length === 0) return "There is no node yet. The files can be fetched all the same.";
  if (good === 0)
    return "It fits on no node now. You can install it all the same; it loads when a node has room.";
  if (good === fits.length) return `It fits on ${ALL[good] ?? `all ${good} nodes`}.`;
  return `It fits on ${good} of ${fits.length} nodes.`;
}

/** The entry's own name, or the first with a number behind it that no model has. */
export function freeName(entry: string, taken: readonly string[]): string {
  const names = new Set(taken);
  let name = entry;
  for (let number = 2; names.has(name); number += 1) name = `${entry}-${number}`;
  return name;
}
