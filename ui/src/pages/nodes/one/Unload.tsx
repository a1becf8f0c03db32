// "Really unload?", with what is being answered now.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { NodeOut } from "@/api/schema";
import { Confirm } from "@/kit/Confirm";
import { Checkbox } from "@/kit/fields";
import { unload } from "@/pages/nodes/calls";
import { plural } from "@/text/format";

interface UnloadProps {
  node: NodeOut;
  model: string;
  inFlight: number;
  onClose: () => void;
}

export function Unload({ node, model, inFlight, onClose }: UnloadProps) {
  const queries = useQueryClient();
  const [isForced, force] = useState(false);
  const confirm = async () => {
    await unload(model, node, isForced);
    await queries.invalidateQueries({ queryKey: ["operations"] });
  };
  return (
    <Confirm
      title={`Unload ${model} from ${node.name}?`}
      verb={`Unload ${model}`}
      danger={inFlight > 0}
      onClose={onClose}
      onConfirm={confirm}
    >
      <div className="stack tight">
        <p>
          {inFlight > 0 ? (
            <strong>It is answering {plural(inFlight, "request")} now.</strong>
          ) : (
            "It answers nothing now."
          )}{" "}
          It gets no new requests, and ends when it has answered. Its files stay. A rule, or the next request,
          may load it again.
        </p>
        {inFlight > 0 && (
          <Checkbox
            label="Cut off what it is answering"
            checked={isForced}
            onChange={(event) => force(event.target.checked)}
          />
        )}
      </div>
    </Confirm>
  );
}
