// What nodes still owe: given up after too many failures, or waiting for a node or for the next try.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useDrop, useRevive } from "@/api/operations";
import type { IntentOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Pill } from "@/kit/status";
import { Trouble } from "@/kit/Trouble";
import type { Filter } from "@/pages/operations/sorting";
import { plural } from "@/text/format";

const WISHES: Record<string, string> = { present: "install", absent: "remove", reinstall: "reinstall" };

interface OwedProps {
  intents: readonly IntentOut[];
  filter: Filter;
  /** Operations whose cards say why already. */
  told?: ReadonlySet<string>;
}

export function Owed({ intents, filter, told }: OwedProps) {
  return (
    <ul className="plain operations-owed">
      {intents.map((intent) => (
        <Debt
          key={`${intent.node_id}/${intent.backend}`}
          intent={intent}
          filter={filter}
          isTold={told?.has(intent.operation_id) ?? false}
        />
      ))}
    </ul>
  );
}

function Debt({ intent, filter, isTold }: { intent: IntentOut; filter: Filter; isTold: boolean }) {
  const revive = useRevive();
  const drop = useDrop();
  const [isAsked, setAsked] = useState(false);
  const isDead = intent.state === "dead";
  const what = `${intent.backend} on ${intent.node_name}`;
  return (
    <li className="panel operations-card">
      <div className="operations-head">
        <div className="operations-title">
          <h3>
            <Link to="/operations" search={{ ...filter, operation: intent.operation_id }}>
              {intent.node_name} owes: {WISHES[intent.desired] ?? intent.desired} {intent.backend}{" "}
              {intent.version}
            </Link>
          </h3>
          <span className="row">
            <Pill tone={isDead ? "bad" : "warn"}>{isDead ? "given up" : "open"}</Pill>
            <span className="small faint">
              {intent.attempts > 0 ? `${plural(intent.attempts, "failure")}, ` : ""}
              {intent.next_retry_at && !isDead ? (
                <>
                  next try <Ago at={intent.next_retry_at} />
                </>
              ) : (
                <>
                  asked for <Ago at={intent.created_at} />
                </>
              )}
            </span>
          </span>
        </div>
        <div className="operations-actions">
          {isDead && (
            <Button
              small
              icon="again"
              busy={revive.isPending}
              aria-label={`Try again: ${what}`}
              onClick={() => revive.mutate(intent)}
            >
              Try again
            </Button>
          )}
          <Button small icon="trash" aria-label={`Drop: ${what}`} onClick={() => setAsked(true)}>
            Drop
          </Button>
        </div>
      </div>
      {intent.error && !isTold && <p className="bad-text small operations-fault">{intent.error}</p>}
      <Trouble error={revive.error} />
      {isAsked && (
        <Confirm
          title={`Drop ${what}?`}
          verb="Drop it"
          onConfirm={() => drop.mutateAsync(intent)}
          onClose={() => setAsked(false)}
        >
          <p>
            {intent.node_name} does not owe it any more, and what it has begun of it is stopped. Other nodes
            are left alone.
          </p>
        </Confirm>
      )}
    </li>
  );
}
