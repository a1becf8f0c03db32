// Why no other machine can join, and what to do about it.
import type { JoinOut } from "@/api/schema";
import { Icon } from "@/kit/icons";
import "@/pages/nodes/nodes.css";

/** Shown before a token is created, which would be useless on another machine. */
export function UnreachableNotice({ join }: { join: JoinOut }) {
  if (!join.problem) return null;
  return (
    <p className="nodes-notice warn">
      <Icon name="warn" />
      <span>
        {join.problem} {join.hint}
      </span>
    </p>
  );
}
