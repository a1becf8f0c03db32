// Describes a placement plan in sentences.
import type { LoadPlanOut, PlacementOut } from "@/api/schema";
import { bytes, duration, joinWords } from "@/text/format";

/** Returns the result of a plan in one sentence. The reasons of refused nodes are left out: they stand beside each node. */
export function describePlan(plan: LoadPlanOut): string {
  if (plan.fits || (plan.refused ?? []).length === 0) return plan.message;
  return `${plan.message.split(". ", 1)[0]?.replace(/\.$/, "")}.`;
}

export function choiceSentences(plan: LoadPlanOut): string[] {
  const names = new Map(
    [...(plan.others ?? []), ...(plan.choices ?? [])].map((one) => [one.node_id, one.node_name]),
  );
  const sentences = (plan.choices ?? []).map((choice) => choiceSentence(choice, plan.fetches_files));
  const evicts = (plan.evicts ?? []).map((one) => `${one.model} on ${names.get(one.node_id) ?? one.node_id}`);
  return evicts.length ? [...sentences, `To make room, ${joinWords(evicts)} would be unloaded.`] : sentences;
}

function readiness(seconds: number | null | undefined): string {
  return seconds != null && seconds < 1 ? "Ready immediately" : `Ready in about ${duration(seconds)}`;
}

function choiceSentence(choice: PlacementOut, fetchesFirst: boolean): string {
  const memory = choice.vram_bytes || choice.ram_bytes;
  const parts = [
    readiness(choice.ready_s),
    memory ? `takes ${bytes(memory)} of ${choice.vram_bytes ? "GPU memory" : "memory"}` : "",
    choice.installs_backend ? `installs ${choice.backend} ${choice.version} first` : "",
    fetchesFirst ? "downloads files first" : "",
    !fetchesFirst && choice.fetch_bytes ? `copies ${bytes(choice.fetch_bytes)} to the node` : "",
  ].filter(Boolean);
  return `${choice.node_name}: ${parts.join("; ")}.`;
}

interface OtherNode {
  node_id: string;
  node_name: string;
  sentence: string;
}

/** Other nodes on which the replica would fit, soonest first, each with its delay. */
export function otherNodes(plan: LoadPlanOut): OtherNode[] {
  const chosen = new Set((plan.choices ?? []).map((one) => one.node_id));
  const best = Math.min(
    ...(plan.others ?? []).filter((one) => chosen.has(one.node_id)).map((one) => one.cost_s),
  );
  return (plan.others ?? [])
    .filter((one) => !chosen.has(one.node_id))
    .map((one) => {
      const later = one.cost_s - best;
      const isSame = !Number.isFinite(later) || later < 0.5;
      return {
        node_id: one.node_id,
        node_name: one.node_name,
        sentence: isSame ? "equally good." : `about ${duration(later)} slower.`,
      };
    });
}
