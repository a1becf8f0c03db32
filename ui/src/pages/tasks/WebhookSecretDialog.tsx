// Shows the secret that a receiver checks the signatures of a task's webhooks with. It is fetched when the dialog opens,
// and forgotten when the dialog closes.
import { useQuery } from "@tanstack/react-query";
import type { TaskOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { CopyButton } from "@/kit/CopyButton";
import { Dialog } from "@/kit/Dialog";
import { QueryView } from "@/kit/QueryView";
import { readWebhookSecret } from "@/pages/tasks/queries";

export function WebhookSecretDialog({ task, onClose }: { task: TaskOut; onClose: () => void }) {
  const query = useQuery({
    queryKey: ["webhook-secret", task.id],
    queryFn: () => readWebhookSecret(task.id),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Dialog
      title={`Signing secret of ${task.name}`}
      onClose={onClose}
      actions={
        <Button kind="primary" onClick={onClose}>
          Close
        </Button>
      }
    >
      <p>
        Receivers check with it that a webhook is from this task: the header <code>webhook-signature</code> is
        made with it, as Standard Webhooks describe. Keep it secret.
      </p>
      <QueryView query={query}>
        {({ secret }) => <CopyButton text={secret} label="the signing secret" />}
      </QueryView>
    </Dialog>
  );
}
