// Shows a new secret, which cannot be shown again: the dialog stays open until the user confirms to have saved it.
import type { ReactNode } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";

interface OneTimeSecretDialogProps {
  title: string;
  /** What to do with the secret now. */
  advice: ReactNode;
  onClose: () => void;
  children: ReactNode;
}

export function OneTimeSecretDialog({ title, advice, onClose, children }: OneTimeSecretDialogProps) {
  const actions = (
    <Button kind="primary" onClick={onClose}>
      Done, I saved it
    </Button>
  );
  return (
    <Dialog title={title} onClose={onClose} wide actions={actions}>
      <p>
        <strong>This is shown only once.</strong> {advice}
      </p>
      {children}
    </Dialog>
  );
}
