// The progress of an installation, in the same dialog. Closing the dialog does not cancel it.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { operation } from "@/api/queries";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ModelOperationFollower } from "@/pages/models/ModelOperationFollower";
import { NextPlacement } from "@/pages/models/NextPlacement";
import { isFinished } from "@/text/operationStates";

interface InstallProgressProps {
  model: string;
  install: string;
  /** The id of the load that follows the install; null without one. */
  load: string | null;
  onClose: () => void;
}

export function InstallProgress({ model, install, load, onClose }: InstallProgressProps) {
  const fetched = useQuery(operation(install));
  const last = useQuery(operation(load ?? install));
  const isDone = last.data !== undefined && isFinished(last.data.state);
  const isHere = fetched.data?.state.startsWith("completed") ?? false;
  return (
    <Dialog
      wide
      title={`Install ${model}`}
      onClose={onClose}
      actions={
        <>
          <Link className="button plain" to="/models/$model" params={{ model }}>
            Open {model}
          </Link>
          <Button kind={isDone ? "primary" : "plain"} onClick={onClose}>
            {isDone ? "Done" : "Close"}
          </Button>
        </>
      }
    >
      <ModelOperationFollower id={install} />
      {load && <ModelOperationFollower id={load} />}
      {!load && isHere && <NextPlacement model={model} />}
      {!isDone && (
        <p className="small soft">
          You can close this dialog. The operation continues; the bar at the top shows its progress.
        </p>
      )}
    </Dialog>
  );
}
