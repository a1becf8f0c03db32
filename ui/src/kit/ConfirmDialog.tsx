// Confirms an action that cannot be undone. If the action fails, the dialog stays open and shows the error.
import { type ReactNode, useState } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";

interface ConfirmDialogProps {
  title: string;
  /** The label of the confirming button: "Remove gpu-a". */
  verb: string;
  /** The label of the button that changes nothing; another one where the action itself is to cancel something. */
  dismissLabel?: string;
  danger?: boolean;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}

export function ConfirmDialog({
  title,
  verb,
  dismissLabel = "Cancel",
  danger = true,
  onConfirm,
  onClose,
  children,
}: ConfirmDialogProps) {
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
          <Button onClick={onClose}>{dismissLabel}</Button>
          <Button kind={danger ? "danger" : "primary"} busy={isBusy} onClick={() => void confirm()}>
            {verb}
          </Button>
        </>
      }
    >
      <div>{children}</div>
      <ErrorNotice error={error} />
    </Dialog>
  );
}
