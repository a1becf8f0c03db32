// Decides about a tool call that waits for a person: approve it, or refuse it with a reason for the model.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { PendingApprovalOut, RunOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { RelativeTime } from "@/kit/RelativeTime";
import { decideCall, runQuery } from "@/pages/runs/queries";
import { formatValue } from "@/pages/runs/trace";
import { useHasScope } from "@/shell/me";
import "@/pages/runs/approval.css";

const REASON_MAX = 1000;

interface ApprovalFormProps {
  run: Pick<RunOut, "id">;
  approval: PendingApprovalOut;
}

export function ApprovalForm({ run, approval }: ApprovalFormProps) {
  const isAdmin = useHasScope("admin");
  const cache = useQueryClient();
  const [reason, setReason] = useState("");
  const decision = useMutation({
    mutationFn: (approved: boolean) =>
      decideCall(run.id, { callId: approval.call_id, approved, reason: reason.trim() }, isAdmin),
    onSuccess: (decided) => cache.setQueryData(runQuery(run.id, isAdmin).queryKey, decided),
    onSettled: () => void cache.invalidateQueries({ queryKey: ["runs"] }),
  });
  const args = formatValue(approval.arguments);
  return (
    <div className="approval" role="group" aria-label={`Approval of ${approval.tool}`}>
      <p>
        The model wants to call <strong>{approval.tool}</strong>.{" "}
        {approval.requested_at && (
          <span className="small faint">
            Requested <RelativeTime at={approval.requested_at} />
          </span>
        )}
      </p>
      {args && <pre>{args}</pre>}
      <TextField
        label="Reason"
        hint="Optional. If you refuse, the model reads it."
        value={reason}
        maxLength={REASON_MAX}
        onChange={(event) => setReason(event.target.value)}
      />
      <div className="row">
        <Button
          kind="primary"
          icon="check"
          aria-label={`Approve ${approval.tool}`}
          busy={decision.isPending && decision.variables}
          disabled={decision.isPending}
          onClick={() => decision.mutate(true)}
        >
          Approve
        </Button>
        <Button
          kind="danger"
          icon="cross"
          aria-label={`Refuse ${approval.tool}`}
          busy={decision.isPending && !decision.variables}
          disabled={decision.isPending}
          onClick={() => decision.mutate(false)}
        >
          Refuse
        </Button>
      </div>
      <ErrorNotice error={decision.error} />
    </div>
  );
}
