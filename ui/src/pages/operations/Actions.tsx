// The buttons of an operation. What cannot be taken back is asked for first; what fails says so beside them.
import { useState } from "react";
import { useAct } from "@/api/operations";
import type { OperationInFull, OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Trouble } from "@/kit/Trouble";
import { type Offer, offers } from "@/pages/operations/offers";
import { useDismiss } from "@/shell/useDismiss";
import { called } from "@/text/operation";

export function Actions({ operation }: { operation: OperationOut | OperationInFull }) {
  const acting = useAct(operation.id);
  const dismissing = useDismiss(operation);
  const error = acting.error ?? dismissing.error;
  const begin = (offer: Offer) => (offer.act === "dismiss" ? dismissing.dismiss() : acting.mutate(offer.act));
  const [asked, setAsked] = useState<Offer | null>(null);
  const offered = offers(operation);
  if (offered.length === 0 && !error) return null;
  const what = called(operation);
  return (
    <div className="operations-actions">
      {offered.map((offer) => (
        <Button
          key={offer.act}
          small
          icon={offer.icon}
          aria-label={`${offer.label}: ${what}`}
          busy={
            offer.act === "dismiss"
              ? dismissing.isPending
              : acting.isPending && acting.variables === offer.act
          }
          onClick={() => (offer.asks ? setAsked(offer) : begin(offer))}
        >
          {offer.label}
        </Button>
      ))}
      <Trouble error={asked ? null : error} />
      {asked && (
        <Confirm
          title={`${asked.label} the ${what}?`}
          verb={`${asked.label} it`}
          onConfirm={() => acting.mutateAsync(asked.act)}
          onClose={() => setAsked(null)}
        >
          <p>{asked.asks}</p>
        </Confirm>
      )}
    </div>
  );
}
