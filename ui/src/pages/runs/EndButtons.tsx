// Cancels a run that is open, or deletes one that has ended; both are confirmed. A job is a run of a task.
import { useState } from "react";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";

interface EndButtonsProps {
  noun: "run" | "job";
  /** What it is a run or job of. */
  subject: string;
  isOpen: boolean;
  onCancel: () => Promise<unknown>;
  onDelete: () => Promise<unknown>;
}

const KEPT = { run: "its answer", job: "its result" } as const;

export function EndButtons({ noun, subject, isOpen, onCancel, onDelete }: EndButtonsProps) {
  const [dialog, setDialog] = useState<"cancel" | "delete" | null>(null);
  const close = () => setDialog(null);
  return (
    <>
      {isOpen ? (
        <Button icon="stop" onClick={() => setDialog("cancel")}>
          Cancel
        </Button>
      ) : (
        <Button icon="trash" onClick={() => setDialog("delete")}>
          Delete
        </Button>
      )}
      {dialog === "cancel" && (
        <ConfirmDialog
          title={`Cancel the ${noun} of ${subject}?`}
          verb={`Cancel the ${noun}`}
          dismissLabel="Back"
          onConfirm={onCancel}
          onClose={close}
        >
          <p>Its worker stops it within seconds. What its tools have changed stays changed.</p>
        </ConfirmDialog>
      )}
      {dialog === "delete" && (
        <ConfirmDialog
          title={`Delete the ${noun} of ${subject}?`}
          verb={`Delete the ${noun}`}
          onConfirm={onDelete}
          onClose={close}
        >
          <p>{`Deletes the ${noun} with its trace and ${KEPT[noun]}. This cannot be undone.`}</p>
        </ConfirmDialog>
      )}
    </>
  );
}
