// The same dialog after the button: what has become of it. It may be closed; the work goes on.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { operation } from "@/api/queries";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { Follow } from "@/pages/models/Follow";
import { NextPlace } from "@/pages/models/NextPlace";
import { hasEnded } from "@/pages/models/state";

interface InstallingProps {
  model: string;
  install: string;
  /** The load that follows; null: none was asked for. */
  load: string | null;
  onClose: () => void;
}

export function Installing({ model, install, load, onClose }: InstallingProps) {
  const fetched = useQuery(operation(install));
  const last = useQuery(operation(load ?? install));
  const isOver = last.data !== undefined && hasEnded(last.data);
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
          <Button kind={isOver ? "primary" : "plain"} onClick={onClose}>
            {isOver ? "Done" : "Close, it goes on"}
          </Button>
        </>
      }
    >
      <Follow id={install} />
      {load && <Follow id={load} />}
      {!load && isHere && <NextPlace model={model} />}
      {!isOver && (
        <p className="small soft">
          You may close this. The operation goes on, and the line at the top shows how far it is.
        </p>
      )}
    </Dialog>
  );
}
