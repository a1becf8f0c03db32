// The buttons of an operation. An action that cannot be undone is confirmed first; an error is shown beside the buttons.
import { useState } from "react";
import { useOperationAction } from "@/api/operations";
import type { OperationDetailOut, OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { listOperationOffers, type OperationOffer } from "@/pages/operations/offers";
import { useDismiss } from "@/shell/useDismiss";
import { nameForActions } from "@/text/operation";

export function Actions({ operation }: { operation: OperationOut | OperationDetailOut }) {
  const acting = useOperationAction(operation.id);
  const dismissing = useDismiss(operation);
  const error = acting.error ?? dismissing.error;
  const begin = (offer: OperationOffer) =>
    offer.action === "dismiss" ? dismissing.dismiss() : acting.mutate(offer.action);
  const [confirmed, setConfirmed] = useState<OperationOffer | null>(null);
  const offered = listOperationOffers(operation);
  if (offered.length === 0 && !error) return null;
  const what = nameForActions(operation);
  return (
    <div className="operations-actions">
      {offered.map((offer) => (
        <Button
          key={offer.action}
          small
          icon={offer.icon}
          aria-label={`${offer.label}: ${what}`}
          busy={
            offer.action === "dismiss"
              ? dismissing.isPending
              : acting.isPending && acting.variables === offer.action
          }
          onClick={() => (offer.question ? setConfirmed(offer) : begin(offer))}
        >
          {offer.label}
        </Button>
      ))}
      <ErrorNotice error={confirmed ? null : error} />
      {confirmed && (
        <ConfirmDialog
          title={`${confirmed.label} ${what}?`}
          verb={confirmed.label}
          dismissLabel="Back"
          onConfirm={() => acting.mutateAsync(confirmed.action)}
          onClose={() => setConfirmed(null)}
        >
          <p>{confirmed.question}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}
