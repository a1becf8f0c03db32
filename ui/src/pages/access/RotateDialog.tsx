// Rotates a key: a new secret, and how long the old one still works.
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { CreatedKeyOut, KeyOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Select } from "@/kit/fields";
import { isLocalClusterKey } from "@/pages/access/accessLists";
import { rotateKey } from "@/pages/access/calls";

const GRACES = [
  { value: "0", label: "Expires at once" },
  { value: "3600", label: "Expires in one hour" },
  { value: "86400", label: "Expires in one day" },
  { value: "604800", label: "Expires in one week" },
];

interface RotateDialogProps {
  entry: KeyOut;
  /** Whether this session uses the key: without a grace period it would end before the new secret was read. */
  isOwn: boolean;
  onClose: () => void;
  onMade: (made: CreatedKeyOut) => void;
}

export function RotateDialog({ entry, isOwn, onClose, onMade }: RotateDialogProps) {
  const [grace, setGrace] = useState("3600");
  const submission = useMutation({
    mutationFn: () => rotateKey(entry.id, Number(grace) || null),
    onSuccess: (made) => {
      onMade(made);
      onClose();
    },
  });
  return (
    <Dialog
      title={`Rotate ${entry.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" busy={submission.isPending} onClick={() => submission.mutate()}>
            {`Rotate ${entry.name}`}
          </Button>
        </>
      }
    >
      <p>The key keeps its scope, models, limits and usage and gets a new secret.</p>
      <Select label="Old secret" value={grace} onChange={(event) => setGrace(event.target.value)}>
        {GRACES.filter((choice) => !isOwn || choice.value !== "0").map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </Select>
      {isOwn && (
        <p className="small soft">
          You are signed in with this key. Sign in with the new secret before the old one expires.
        </p>
      )}
      {isLocalClusterKey(entry) && (
        <p className="small bad-text">
          This is the admin key of <code>corral up</code>, or of the setting <code>admin_key</code>. Rotating
          it here does not change the file <code>admin.key</code> there: when the old secret expires, commands
          on that machine are rejected. <code>corral keys rotate {entry.name}</code> on that machine changes
          both; or put the new secret into the file yourself.
        </p>
      )}
      <ErrorNotice error={submission.error} />
    </Dialog>
  );
}
