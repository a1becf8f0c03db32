// Explains for each node whether a variant fits, in a sentence. The server decides; the page estimates why.
import type { ModelPlanOut, NodeOut, VariantOut } from "@/api/schema";
import { bytes } from "@/text/format";
import { findStateWord } from "@/text/stateWords";

export interface NodeFit {
  node: string;
  fits: boolean;
  sentence: string;
}

function getMemory(node: NodeOut): { bytes: number | null; kind: string } {
  if (node.total_vram) return { bytes: node.vram_budget_bytes ?? node.total_vram, kind: "GPU memory" };
  return { bytes: node.total_ram ?? null, kind: "memory" };
}

/** Converts the facts about an address to the form of a gallery's variant. */
export function toVariant(plan: ModelPlanOut): VariantOut {
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

export function computeFits(
  nodes: readonly NodeOut[],
  variant: VariantOut,
  payload: number | null,
): NodeFit[] {
  return nodes
    .filter((node) => node.node_type === "backend" && node.status !== "pending")
    .map((node) => fitOf(node, variant, payload))
    .sort((one, other) => Number(other.fits) - Number(one.fits) || one.node.localeCompare(other.node));
}

function fitOf(node: NodeOut, variant: VariantOut, payload: number | null): NodeFit {
  const makeFit = (fits: boolean, sentence: string): NodeFit => ({ node: node.name, fits, sentence });
  const has = getMemory(node);
  const needs = variant.memory_bytes ?? null;
  if (node.status === "offline") return makeFit(false, "Offline.");
  if (!(variant.fits_on ?? []).includes(node.name)) {
    if (!node.schedulable)
      return makeFit(false, `Accepts no new work: ${findStateWord("node", node.status)}.`);
    if (needs !== null && has.bytes !== null && needs > has.bytes)
      return makeFit(
        false,
        `Too small: it has ${bytes(has.bytes)} of ${has.kind}, about ${bytes(needs)} are needed.`,
      );
    return makeFit(false, `No compatible build of ${variant.backend}, or excluded by a rule.`);
  }
  if (!node.schedulable)
    return makeFit(
      false,
      `It would fit, but the node accepts no new work: ${findStateWord("node", node.status)}.`,
    );
  if (payload && node.available_disk != null && payload > node.available_disk)
    return makeFit(
      false,
      `Its disk has ${bytes(node.available_disk)} free, and ${bytes(payload)} are needed.`,
    );
  if (needs === null) return makeFit(true, "Probably fits; memory use unknown.");
  const free = node.total_vram ? node.available_vram : node.available_ram;
  const room = free != null && free < needs ? " Another model must be unloaded first." : "";
  return makeFit(true, `About ${bytes(needs)} of ${bytes(has.bytes)} ${has.kind}.${room}`);
}

const ALL: Record<number, string> = { 1: "the only node", 2: "both nodes" };

/** One sentence for all nodes. */
export function describeFits(fits: readonly NodeFit[]): string {
  const good = fits.filter((fit) => fit.fits).length;
  if (fits.length === 0) return "No nodes yet. Files can be downloaded anyway.";
  if (good === 0) return "Fits on no node right now. You can install it; it loads when a node has room.";
  if (good === fits.length) return `Fits on ${ALL[good] ?? `all ${good} nodes`}.`;
  return `Fits on ${good} of ${fits.length} nodes.`;
}

/** A free name for the model: the entry's own, or the first with a number that no model has. */
export function pickFreeName(entry: string, taken: readonly string[]): string {
  const names = new Set(taken);
  let name = entry;
  for (let number = 2; names.has(name); number += 1) name = `${entry}-${number}`;
  return name;
}
