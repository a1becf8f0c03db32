// Revoking a key, and once more with the way back if it is the last one that may administer.
import { useState } from "react";
import { asProblem } from "@/api/client";
import type { KeyOut } from "@/api/schema";
import { Confirm } from "@/kit/Confirm";
import { useToast } from "@/kit/toasts";
import { revokeKey } from "@/pages/access/calls";

interface RevokeDialogProps {
  entry: KeyOut;
  isOwn: boolean;
  onClose: () => void;
}

export function RevokeDialog({ entry, isOwn, onClose }: RevokeDialogProps) {
  const toast = useToast();
  const [isLast, setLast] = useState(false);
  const revoke = async () => {
    try {
      await revokeKey(entry.id, isLast);
    } catch (error) {
      if (asProblem(error).code === "last_key") setLast(true);
      throw error;
    }
    toast(`${entry.name} does not work any more.`);
  };
  if (isLast) {
    return (
      <Confirm
        key="last"
        title={`${entry.name} is the last admin key that works`}
        verb="Revoke the last admin key"
        onConfirm={revoke}
        onClose={onClose}
      >
        <p>
          Without it nobody can administer this cluster, on this page or with commands. Better make another
          admin key first.
        </p>
        <p>
          The way back is a command: <code>corral keys recover</code> makes a new admin key, on the machine of{" "}
          <code>corral up</code> or with the address of the database.
        </p>
      </Confirm>
    );
  }
  return (
    <Confirm
      title={`Revoke ${entry.name}?`}
      verb={`Revoke ${entry.name}`}
      onConfirm={revoke}
      onClose={onClose}
    >
      <p>Programs that use it are refused from now on. A revoked key stays revoked.</p>
      {isOwn && <p className="bad-text">You are signed in with this key. Revoking it signs you out.</p>}
    </Confirm>
  );
}
