// The active operation of one node, as a link in one line.
import { Link } from "@tanstack/react-router";
import type { NodeOut, OperationOut } from "@/api/schema";
import { Progress } from "@/kit/measures";
import { describeVerb, targetWord } from "@/text/operation";
import { STATE_WORDS } from "@/text/stateWords.gen";

export function NodeOperation({
  operation,
  node,
}: {
  operation: OperationOut;
  node: Pick<NodeOut, "id" | "name">;
}) {
  const target = operation.nodes?.find((one) => one.node_id === node.id);
  const isFailed = target?.state === "error";
  const word = target && targetWord(target);
  return (
    <Link to="/operations" search={{ operation: operation.id }} className="small nodes-under">
      <span className={isFailed ? "bad-text nodes-fault" : undefined}>
        {isFailed ? (
          <>
            {operation.name}: {target?.error ?? "failed"}
          </>
        ) : (
          <>
            {describeVerb(operation)} {operation.name}
            {word && word.text !== STATE_WORDS.target.working && <span className="soft"> · {word.text}</span>}
          </>
        )}
      </span>
      {target?.state === "working" && (
        <Progress value={target.percentage || null} label={`${operation.name} on ${node.name}`} />
      )}
    </Link>
  );
}
