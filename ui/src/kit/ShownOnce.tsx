// A secret, this once: the dialog stays until somebody says that they have it.
import type { ReactNode } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";

interface ShownOnceProps {
  title: string;
  /** What to do with it now. */
  advice: ReactNode;
  onClose: () => void;
  children: ReactNode;
}

export function ShownOnce({ title, advice, onClose, children }: ShownOnceProps) {
  const actions = (
    <Button kind="primary" onClick={onClose}>
      I have it
    </Button>
  );
  return (
    <Dialog title={title} onClose={onClose} wide actions={actions}>
      <p>
        <strong>It is shown here only.</strong> {advice}
      </p>
      {children}
    </Dialog>
  );
}
