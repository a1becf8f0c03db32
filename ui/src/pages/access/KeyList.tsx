// Every key, and the dialogs that are about one of them.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { CreatedKeyOut, KeyOut } from "@/api/schema";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { filterKeys } from "@/pages/access/accessLists";
import { keys } from "@/pages/access/calls";
import { KeyDialog } from "@/pages/access/KeyDialog";
import { KeyRow } from "@/pages/access/KeyRow";
import { RevokeDialog } from "@/pages/access/RevokeDialog";
import { RotateDialog } from "@/pages/access/RotateDialog";
import { SecretDialog } from "@/pages/access/SecretDialog";
import { useMe } from "@/shell/me";
import { usePageSearch } from "@/shell/usePageSearch";

type KeyAction = { kind: "rotate" | "revoke"; key: KeyOut };

export function KeyList() {
  const [{ q = "", show, new: isNew, key: changed }, setSearch] = usePageSearch("/access");
  const me = useMe();
  const query = useQuery(keys);
  const [made, setMade] = useState<CreatedKeyOut | null>(null);
  const [openDialog, setOpenDialog] = useState<KeyAction | null>(null);
  const close = () => setOpenDialog(null);
  const edited = query.data?.find((key) => key.id === changed);
  return (
    <>
      <QueryView query={query}>
        {(all) => {
          const shown = filterKeys(all, q, show !== "all");
          if (shown.length === 0) return <NoKeys all={all} />;
          return (
            <ul className="plain access-list" aria-label="Keys">
              {shown.map((key) => (
                <KeyRow
                  key={key.id}
                  entry={key}
                  isOwn={key.id === me.key_id}
                  onEdit={() => setSearch({ key: key.id })}
                  onRotate={() => setOpenDialog({ kind: "rotate", key })}
                  onRevoke={() => setOpenDialog({ kind: "revoke", key })}
                />
              ))}
            </ul>
          );
        }}
      </QueryView>
      {isNew && (
        <KeyDialog entry={null} onClose={() => setSearch({ new: undefined }, true)} onMade={setMade} />
      )}
      {edited && (
        <KeyDialog entry={edited} onClose={() => setSearch({ key: undefined }, true)} onMade={setMade} />
      )}
      {openDialog?.kind === "rotate" && (
        <RotateDialog
          entry={openDialog.key}
          isOwn={openDialog.key.id === me.key_id}
          onClose={close}
          onMade={setMade}
        />
      )}
      {openDialog?.kind === "revoke" && (
        <RevokeDialog entry={openDialog.key} isOwn={openDialog.key.id === me.key_id} onClose={close} />
      )}
      {made && <SecretDialog made={made} onClose={() => setMade(null)} />}
    </>
  );
}

function NoKeys({ all }: { all: KeyOut[] }) {
  return all.length === 0 ? (
    <EmptyState title="No keys yet.">
      Create one per program, so that each can be revoked separately.
    </EmptyState>
  ) : (
    <EmptyState title="No keys match this filter.">Change the search or show all keys.</EmptyState>
  );
}
