// Confirms the revocation of a key, a second time if it is the last admin key.
import { useState } from "react";
import { asProblem } from "@/api/client";
import type { KeyOut } from "@/api/schema";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
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
    toast(`Revoked ${entry.name}.`);
  };
  if (isLast) {
    return (
      <ConfirmDialog
        key="last"
        title={`${entry.name} is the last active admin key`}
        verb="Revoke the last admin key"
        onConfirm={revoke}
        onClose={onClose}
      >
        <p>
          Without it no one can administer this cluster, on this page or with commands. Create another admin
          key first.
        </p>
        <p>
          To recover, run <code>corral keys recover</code>, which creates a new admin key, on the machine of{" "}
          <code>corral up</code> or with the address of the database.
        </p>
      </ConfirmDialog>
    );
  }
  return (
    <ConfirmDialog
      title={`Revoke ${entry.name}?`}
      verb={`Revoke ${entry.name}`}
      onConfirm={revoke}
      onClose={onClose}
    >
      <p>Requests with this key are rejected from now on. This cannot be undone.</p>
      {isOwn && <p className="bad-text">You are signed in with this key. Revoking it signs you out.</p>}
    </ConfirmDialog>
  );
}
