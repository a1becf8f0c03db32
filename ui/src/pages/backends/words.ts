// The text of a cell: a word, and a sentence for screen readers.
import type { MatrixCellData } from "@/pages/backends/fleet";
import { phaseWord } from "@/text/operation";
import { RETRYING, STATE_WORDS } from "@/text/stateWords.gen";

const DOING: Record<string, string> = {
  backend_install: "installing",
  backend_upgrade: "upgrading",
  backend_reinstall: "reinstalling",
  backend_rollback: "rolling back",
  backend_delete: "removing",
};

/** The word that is shown in the cell. */
export function cellWord(cell: MatrixCellData): string {
  switch (cell.state) {
    case "installed":
      return cell.version || "installed";
    case "busy":
      return cell.phase ? phaseWord(cell.phase) : (DOING[cell.kind] ?? STATE_WORDS.target.working);
    case "queued":
      return cell.error ? RETRYING : STATE_WORDS.target.queued;
    case "missing":
      return "missing";
    case "unfit":
      return "";
    default:
      return cell.state;
  }
}

/** The same as a sentence, for users who do not see the colours. */
export function cellSentence(cell: MatrixCellData, backend: string): string {
  const facts = [`${backend} on ${cell.nodeName}`];
  const doing = DOING[cell.kind] ?? STATE_WORDS.target.working;
  const has = cell.version ? `version ${cell.version}` : cell.build ? "installed" : "";
  if (cell.state === "installed") facts.push(has || "installed");
  if (cell.state === "missing") facts.push("missing");
  if (cell.state === "unfit") facts.push(cell.reason);
  if (cell.state === "busy") facts.push(doing, has);
  if (cell.state === "queued")
    facts.push(
      `${doing}, ${STATE_WORDS.target.queued}`,
      cell.error && `${RETRYING} after: ${cell.error}`,
      has,
    );
  if (cell.state === "pending")
    facts.push(
      cell.targetVersion ? `${cell.targetVersion} ${STATE_WORDS.change.open}` : STATE_WORDS.change.open,
      has,
    );
  if (cell.state === "failed") facts.push(`failed: ${cell.error}`, has);
  if (cell.drifts) facts.push(cell.usual ? `drifts from ${cell.usual}` : "drifts");
  if (cell.upgrade) facts.push(`upgrade to ${cell.upgrade}`);
  return facts.filter(Boolean).join(", ");
}
