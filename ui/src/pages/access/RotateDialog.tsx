// A new secret for the same key, and how long the old one still works.
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { KeyMade, KeyOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { Select } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import { rotateKey } from "@/pages/access/calls";
import { isOfHome } from "@/pages/access/listing";

const GRACES = [
  { value: "0", label: "It stops at once" },
  { value: "3600", label: "One more hour" },
  { value: "86400", label: "One more day" },
  { value: "604800", label: "One more week" },
];

interface RotateDialogProps {
  entry: KeyOut;
  /** This session is the key: without a grace it would end before anybody has read the new secret. */
  isOwn: boolean;
  onClose: () => void;
  onMade: (made: KeyMade) => void;
}

export function RotateDialog({ entry, isOwn, onClose, onMade }: RotateDialogProps) {
  const [grace, setGrace] = useState("3600");
  const asked = useMutation({
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
          <Button kind="primary" busy={asked.isPending} onClick={() => asked.mutate()}>
            {`Rotate ${entry.name}`}
          </Button>
        </>
      }
    >
      <p>The key stays, with its scope, models, limits and usage. Its secret becomes another.</p>
      <Select label="The old secret" value={grace} onChange={(event) => setGrace(event.target.value)}>
        {GRACES.filter((choice) => !isOwn || choice.value !== "0").map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </Select>
      {isOwn && (
        <p className="small soft">
          You are signed in with this key. Sign in with the new secret before the old one ends.
        </p>
      )}
      {isOfHome(entry) && (
        <p className="small bad-text">
          This is the admin key of <code>corral up</code>, or of the setting <code>admin_key</code>. Rotating
          it here does not change the file <code>admin.key</code> there: when the old secret ends, commands on
          that machine are refused. <code>corral keys rotate {entry.name}</code> on that machine changes both;
          or put the new secret into the file yourself.
        </p>
      )}
      <Trouble error={asked.error} />
    </Dialog>
  );
}
