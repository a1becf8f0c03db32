// A machine in a few words.
import type { NodeOut } from "@/api/schema";
import { bytes } from "@/text/format";

/** `2 × RTX 4090, 16 cores, 64 GiB, x86_64`. What a machine has not told is left out. */
export function hardwareOf(node: NodeOut): string {
  const gpus = countedBy((node.gpus ?? []).map((gpu) => gpu.name || gpu.vendor));
  const words = [
    ...gpus,
    gpus.length === 0 && (node.total_vram ?? 0) > 0 && node.gpu_vendor,
    node.cpu_cores && `${node.cpu_cores} cores`,
    node.total_ram && bytes(node.total_ram),
    node.architecture,
  ];
  return words.filter(Boolean).join(", ");
}

function countedBy(names: string[]): string[] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${count} × ${name}`));
}

export function usedOf(
  total: number | null | undefined,
  available: number | null | undefined,
): number | null {
  return total == null || available == null ? null : Math.max(0, total - available);
}
