// What to run on a new machine, platform by platform.

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
  if (isOnlyHere(origin)) {
    steps.unshift({
      sentence:
        "This address works on this machine only. Start the cluster with `corral up --host 0.0.0.0` and open the page by its name for others to join.",
      label: "",
    });
  }
  return steps;
}

export function isOnlyHere(origin: string): boolean {
  return ["localhost", "127.0.0.1", "[::1]"].includes(new URL(origin).hostname);
}
