// The list of users with their scopes.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { UserOut } from "@/api/schema";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { useToast } from "@/kit/toasts";
import { filterUsers } from "@/pages/access/accessLists";
import { changeUser, keys, removeUser, users } from "@/pages/access/calls";
import { NewUserDialog, PasswordDialog, ScopeDialog } from "@/pages/access/UserDialogs";
import { UserRow } from "@/pages/access/UserRow";
import { useMe } from "@/shell/me";
import { usePageSearch } from "@/shell/usePageSearch";
import { plural } from "@/text/format";

export type UserAction = "scope" | "password" | "disable" | "enable" | "remove";

export function UserList() {
  const [{ q = "", new: isNew }, setSearch] = usePageSearch("/access");
  const me = useMe();
  const query = useQuery(users);
  const held = useQuery(keys).data ?? [];
  const [openDialog, setOpenDialog] = useState<{ kind: UserAction; user: UserOut } | null>(null);
  const heldBy = (user: UserOut) =>
    held.filter((key) => key.user_id === user.id && key.state !== "revoked").length;
  return (
    <>
      <QueryView query={query}>
        {(all) => {
          const shown = filterUsers(all, q);
          if (shown.length === 0) return <NoUsers isEmpty={all.length === 0} />;
          return (
            <ul className="plain access-list" aria-label="Users">
              {shown.map((user) => (
                <UserRow
                  key={user.id}
                  user={user}
                  keyCount={heldBy(user)}
                  isOwn={user.id === me.user_id}
                  onChoose={(kind) => setOpenDialog({ kind, user })}
                />
              ))}
            </ul>
          );
        }}
      </QueryView>
      {isNew && <NewUserDialog onClose={() => setSearch({ new: undefined }, true)} />}
      {openDialog && (
        <UserDialog {...openDialog} keyCount={heldBy(openDialog.user)} onClose={() => setOpenDialog(null)} />
      )}
    </>
  );
}

interface UserDialogProps {
  kind: UserAction;
  user: UserOut;
  keyCount: number;
  onClose: () => void;
}

function UserDialog({ kind, user, keyCount, onClose }: UserDialogProps) {
  const toast = useToast();
  switch (kind) {
    case "scope":
      return <ScopeDialog user={user} onClose={onClose} />;
    case "password":
      return <PasswordDialog user={user} onClose={onClose} />;
    case "remove":
      return (
        <ConfirmDialog
          title={`Remove ${user.name}?`}
          verb={`Remove ${user.name}`}
          onConfirm={async () => {
            await removeUser(user.id);
            toast(`Removed ${user.name}.`);
          }}
          onClose={onClose}
        >
          <p>
            {keyCount > 0 ? `Deletes ${plural(keyCount, "key")} and all sessions.` : "Deletes all sessions."}{" "}
            Usage records are kept.
          </p>
        </ConfirmDialog>
      );
    default:
      return (
        <ConfirmDialog
          title={kind === "disable" ? `Disable ${user.name}?` : `Enable ${user.name}?`}
          verb={kind === "disable" ? `Disable ${user.name}` : `Enable ${user.name}`}
          danger={kind === "disable"}
          onConfirm={() => changeUser(user.id, { disabled: kind === "disable" })}
          onClose={onClose}
        >
          <p>
            {kind === "disable"
              ? "The user's keys and sessions stop working at once. This can be undone."
              : "The user can sign in again, and the keys work again."}
          </p>
        </ConfirmDialog>
      );
  }
}

function NoUsers({ isEmpty }: { isEmpty: boolean }) {
  return isEmpty ? (
    <EmptyState title="No users yet.">
      People can also sign in with a key. A user has a name and a password.
    </EmptyState>
  ) : (
    <EmptyState title="No users match this filter.">Change the search.</EmptyState>
  );
}
