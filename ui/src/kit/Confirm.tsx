// "Really?" for what cannot be taken back. The dialog stays open with the problem if it fails.
import { type ReactNode, useState } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { Trouble } from "@/kit/Trouble";

interface ConfirmProps {
  title: string;
  /** What it is called on the button: "Remove gpu-a". */
  verb: string;
  danger?: boolean;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}

export function Confirm({ title, verb, danger = true, onConfirm, onClose, children }: ConfirmProps) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Keep it as it is</Button>
          <Button kind={danger ? "danger" : "primary"} busy={isBusy} onClick={() => void confirm()}>
            {verb}
          </Button>
        </>
      }
    >
      <div>{children}</div>
      <Trouble error={error} />
    </Dialog>
  );
}
