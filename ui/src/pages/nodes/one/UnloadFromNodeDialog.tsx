// Confirms an unload, and shows the requests that are being answered now.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { NodeOut } from "@/api/schema";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Checkbox } from "@/kit/fields";
import { unloadFromNode } from "@/pages/nodes/calls";
import { plural } from "@/text/format";

interface UnloadDialogProps {
  node: NodeOut;
  model: string;
  inFlight: number;
  onClose: () => void;
}

export function UnloadFromNodeDialog({ node, model, inFlight, onClose }: UnloadDialogProps) {
  const queries = useQueryClient();
  const [isForced, force] = useState(false);
  const confirm = async () => {
    await unloadFromNode(model, node, isForced);
    await queries.invalidateQueries({ queryKey: ["operations"] });
  };
  return (
    <ConfirmDialog
      title={`Unload ${model} from ${node.name}?`}
      verb={`Unload ${model}`}
      danger={inFlight > 0}
      onClose={onClose}
      onConfirm={confirm}
    >
      <div className="stack tight">
        <p>
          {inFlight > 0 ? (
            <strong>{plural(inFlight, "request is", "requests are")} in flight.</strong>
          ) : (
            "No requests in flight."
          )}{" "}
          It gets no new requests and stops when in-flight requests are done. Its files stay. A rule, or the
          next request, may load it again.
        </p>
        {inFlight > 0 && (
          <Checkbox
            label="Abort in-flight requests"
            checked={isForced}
            onChange={(event) => force(event.target.checked)}
          />
        )}
      </div>
    </ConfirmDialog>
  );
}
