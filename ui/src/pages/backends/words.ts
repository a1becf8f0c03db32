// What a cell says, in a few letters and in a sentence.
import type { Cell } from "@/pages/backends/fleet";
import { phaseWord } from "@/pages/backends/targets";

const DOING: Record<string, string> = {
  backend_install: "installing",
  backend_upgrade: "upgrading",
  backend_reinstall: "reinstalling",
  backend_rollback: "going back",
  backend_delete: "removing",
};

/** In the cell. */
export function cellWord(cell: Cell): string {
  switch (cell.state) {
    case "installed":
      return cell.version || "installed";
    case "busy":
      return cell.phase ? phaseWord(cell.phase) : (DOING[cell.kind] ?? "busy");
    case "queued":
      return cell.error ? "tried again soon" : "queued";
    case "missing":
      return "missing";
    case "unfit":
      return "";
    default:
      return cell.state;
  }
}

/** For somebody who does not see the colours. */
export function cellSentence(cell: Cell, backend: string): string {
  const facts = [`${backend} on ${cell.nodeName}`];
  const doing = DOING[cell.kind] ?? "busy";
  const has = cell.version ? `version ${cell.version}` : cell.build ? "installed" : "";
  if (cell.state === "installed") facts.push(has || "installed");
  if (cell.state === "missing") facts.push("missing");
  if (cell.state === "unfit") facts.push(cell.reason);
  if (cell.state === "busy") facts.push(doing, has);
  if (cell.state === "queued")
    facts.push(`${doing}, queued`, cell.error && `tried again after: ${cell.error}`, has);
  if (cell.state === "owed") facts.push(cell.wanted ? `${cell.wanted} is owed` : "owed", has);
  if (cell.state === "failed") facts.push(`failed: ${cell.error}`, has);
  if (cell.drifts) facts.push(cell.usual ? `drifts from ${cell.usual}` : "drifts");
  if (cell.upgrade) facts.push(`upgrade to ${cell.upgrade}`);
  return facts.filter(Boolean).join(", ");
}
