// What to run on a new machine, platform by platform, and who has come since.
import type { NodeOut } from "@/api/schema";

export type Platform = "linux" | "mac" | "jetson" | "installed";

export const PLATFORMS: { value: Platform; label: string }[] = [
  { value: "linux", label: "Linux" },
  { value: "mac", label: "macOS" },
  { value: "jetson", label: "Jetson" },
  { value: "installed", label: "Corral is there already" },
];

export interface Step {
  sentence: string;
  command?: string;
  /** What the copy button is called. */
  label: string;
}

const HAVE: Record<Exclude<Platform, "installed">, string> = {
  linux: "Have Python 3.11 or newer, and Corral:",
  mac: "Have Python 3.11 or newer (brew install python), and Corral:",
  jetson: "On JetPack 6 or newer, have Python 3.11 or newer, and Corral:",
};

export function stepsFor(platform: Platform, origin: string, token: string): Step[] {
  const program = platform === "installed" ? "corral" : "~/corral/bin/corral";
  const steps: Step[] = [
    {
      sentence: "Start its worker. It keeps running there; a service of the system may do the same.",
      command: `${program} worker --join ${origin} --token ${token}`,
      label: "the command that joins",
    },
  ];
  if (platform !== "installed") {
    steps.unshift({
      sentence: HAVE[platform],
      command: "python3 -m venv ~/corral && ~/corral/bin/pip install corral",
      label: "the command that installs",
    });
  }
  return steps;
}

/** An address that no other machine can reach. */
export function isOnlyHere(origin: string): boolean {
  return ["localhost", "127.0.0.1", "[::1]"].includes(new URL(origin).hostname);
}

type Known = Pick<NodeOut, "id" | "boot_id" | "status">;

/** Who was not there, or not alive, when the window opened. A node that is known and starts anew has come too. */
export function arrivals<T extends Known>(before: readonly Known[], now: readonly T[]): T[] {
  const were = new Map(before.map((node) => [node.id, node]));
  return now.filter((node) => {
    const was = were.get(node.id);
    return !was || (was.status === "offline" && was.boot_id !== node.boot_id);
  });
}
