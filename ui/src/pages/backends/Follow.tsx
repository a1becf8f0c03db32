// An operation, followed by its id until it has ended, however long that takes. Closing what shows it ends nothing.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { operation as oneOperation } from "@/api/queries";
import type { OperationInFull } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Trouble } from "@/kit/Trouble";
import { ask, cancel, dismiss, retry, simply } from "@/pages/backends/data";
import { TargetList } from "@/pages/backends/TargetList";
import { againFor, isOver, offeredBack, standing } from "@/pages/backends/targets";
import { operationsSearch } from "@/pages/operations/search";
import { plural } from "@/text/format";

interface FollowProps {
  id: string;
  /** Something new was asked for out of this one; that one is followed from now on. */
  onNext: (id: string) => void;
  /** The node that somebody looks at. */
  only?: string;
  /** Several are followed: each says what it is about. */
  titled?: boolean;
}

export function Follow({ id, onNext, only, titled = false }: FollowProps) {
  const query = useQuery(oneOperation(id));
  return (
    <Answered query={query}>
      {(operation) => <Followed operation={operation} onNext={onNext} only={only} titled={titled} />}
    </Answered>
  );
}

interface FollowedProps {
  operation: OperationInFull;
  onNext: (id: string) => void;
  only: string | undefined;
  titled: boolean;
}

function Followed({ operation, onNext, only, titled }: FollowedProps) {
  const again = operation.state === "failed" ? againFor(operation) : null;
  const back = offeredBack(operation, only);
  const stopping = useMutation({ mutationFn: () => cancel(operation.id) });
  const retrying = useMutation({
    mutationFn: async () => {
      if (!again) throw new Error("Nothing has failed.");
      const admitted = await ask(again);
      await dismiss(operation.id).catch(() => undefined);
      return admitted;
    },
    onSuccess: (admitted) => onNext(admitted.id),
  });
  const returning = useMutation({
    mutationFn: () => ask(simply("rollback", operation.name, back)),
    onSuccess: (admitted) => onNext(admitted.id),
  });
  const anew = useMutation({
    mutationFn: () => retry(operation.id),
    onSuccess: (admitted) => onNext(admitted.id),
  });
  return (
    <div className="stack tight backends-follow" data-state={operation.state}>
      {titled && <h3>{operation.name}</h3>}
      <p role="status" aria-live="polite" className={operation.state === "failed" ? "bad-text" : ""}>
        <strong>{standing(operation)}</strong>
      </p>
      <TargetList operation={operation} only={only} />
      <div className="row">
        {operation.cancellable && !isOver(operation.state) && (
          <Button small icon="stop" busy={stopping.isPending} onClick={() => stopping.mutate()}>
            Cancel this operation
          </Button>
        )}
        {again && (
          <Button
            small
            kind="primary"
            icon="again"
            busy={retrying.isPending}
            onClick={() => retrying.mutate()}
          >
            Retry on {plural(again.nodes?.length ?? 0, "node")}
          </Button>
        )}
        {(operation.state === "cancelled" || (operation.state === "failed" && !again)) && (
          <Button small icon="again" busy={anew.isPending} onClick={() => anew.mutate()}>
            Ask for it again
          </Button>
        )}
        {back.length > 0 && (
          <Button small busy={returning.isPending} onClick={() => returning.mutate()}>
            Roll back {plural(back.length, "node")}
          </Button>
        )}
        <Link to="/operations" search={operationsSearch({ operation: operation.id })} className="small">
          Its log
        </Link>
        {!isOver(operation.state) && <span className="small soft">It goes on when this is closed.</span>}
      </div>
      <Trouble error={stopping.error ?? retrying.error ?? anew.error ?? returning.error} />
    </div>
  );
}
