// People: who may come in, and what they may.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { UserOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Confirm } from "@/kit/Confirm";
import { Empty } from "@/kit/Panel";
import { useToast } from "@/kit/toasts";
import { changeUser, keys, removeUser, users } from "@/pages/access/calls";
import { shownUsers } from "@/pages/access/listing";
import { NewUserDialog, PasswordDialog, ScopeDialog } from "@/pages/access/UserDialogs";
import { UserRow } from "@/pages/access/UserRow";
import { useMe } from "@/shell/me";
import { useAddress } from "@/shell/useAddress";
import { plural } from "@/text/format";

export type AskedOfUser = "scope" | "password" | "disable" | "enable" | "remove";

export function UserList() {
  const [{ q = "", new: isNew }, say] = useAddress("/access");
  const me = useMe();
  const asked = useQuery(users);
  const held = useQuery(keys).data ?? [];
  const [about, ask] = useState<{ kind: AskedOfUser; user: UserOut } | null>(null);
  const heldBy = (user: UserOut) =>
    held.filter((key) => key.user_id === user.id && key.state !== "revoked").length;
  return (
    <>
      <Answered query={asked}>
        {(all) => {
          const shown = shownUsers(all, q);
          if (shown.length === 0) return <Nothing isEmpty={all.length === 0} />;
          return (
            <ul className="plain access-list" aria-label="Users">
              {shown.map((user) => (
                <UserRow
                  key={user.id}
                  user={user}
                  keyCount={heldBy(user)}
                  isOwn={user.id === me.user_id}
                  onAsk={(kind) => ask({ kind, user })}
                />
              ))}
            </ul>
          );
        }}
      </Answered>
      {isNew && <NewUserDialog onClose={() => say({ new: undefined }, true)} />}
      {about && <About {...about} keyCount={heldBy(about.user)} onClose={() => ask(null)} />}
    </>
  );
}

interface AboutProps {
  kind: AskedOfUser;
  user: UserOut;
  keyCount: number;
  onClose: () => void;
}

function About({ kind, user, keyCount, onClose }: AboutProps) {
  const toast = useToast();
  switch (kind) {
    case "scope":
      return <ScopeDialog user={user} onClose={onClose} />;
    case "password":
      return <PasswordDialog user={user} onClose={onClose} />;
    case "remove":
      return (
        <Confirm
          title={`Remove ${user.name}?`}
          verb={`Remove ${user.name}`}
          onConfirm={async () => {
            await removeUser(user.id);
            toast(`${user.name} is gone.`);
          }}
          onClose={onClose}
        >
          <p>
            {keyCount > 0
              ? `Gone with ${plural(keyCount, "key")} and every session.`
              : "Gone with every session."}{" "}
            What they have used stays in the record.
          </p>
        </Confirm>
      );
    default:
      return (
        <Confirm
          title={kind === "disable" ? `Disable ${user.name}?` : `Enable ${user.name}?`}
          verb={kind === "disable" ? `Disable ${user.name}` : `Enable ${user.name}`}
          danger={kind === "disable"}
          onConfirm={() => changeUser(user.id, { disabled: kind === "disable" })}
          onClose={onClose}
        >
          <p>
            {kind === "disable"
              ? "Their keys and sessions stop at once. They can be enabled again."
              : "They can come in again, and their keys work again."}
          </p>
        </Confirm>
      );
  }
}

function Nothing({ isEmpty }: { isEmpty: boolean }) {
  return isEmpty ? (
    <Empty title="There is no user yet.">
      People can also come in with a key. A user has a name and a password.
    </Empty>
  ) : (
    <Empty title="No user is like that.">Another word finds more.</Empty>
  );
}
