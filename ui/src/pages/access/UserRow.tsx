// One user, and what can be done to them.
import type { UserOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Menu } from "@/kit/Menu";
import { Pill, Tag } from "@/kit/status";
import { Fact } from "@/pages/access/KeyRow";
import type { AskedOfUser } from "@/pages/access/UserList";
import { count } from "@/text/format";

interface UserRowProps {
  user: UserOut;
  keyCount: number;
  isOwn: boolean;
  onAsk: (kind: AskedOfUser) => void;
}

export function UserRow({ user, keyCount, isOwn, onAsk }: UserRowProps) {
  const isDisabled = user.disabled_at !== null;
  return (
    <li
      className={isDisabled ? "access-row access-user access-ended" : "access-row access-user"}
      aria-label={user.name}
    >
      <div className="access-name">
        <strong>{user.name}</strong>
        {isOwn && <Tag tone="busy">you</Tag>}
      </div>
      <div className="row access-state">
        <Pill tone={isDisabled ? "warn" : "good"}>{isDisabled ? "disabled" : "active"}</Pill>
        <Tag tone={user.scope === "admin" ? "warn" : undefined}>{user.scope}</Tag>
      </div>
      <dl className="access-facts">
        <Fact name="Comes in">{waysOf(user)}</Fact>
        <Fact name="Keys">{count(keyCount)}</Fact>
        <Fact name="Since">
          <Ago at={user.created_at} />
        </Fact>
        <Fact name="Made by">{user.created_by}</Fact>
      </dl>
      <div className="row access-actions">
        <Menu
          label={`More about ${user.name}`}
          items={[
            { label: "Another scope", icon: "key", onSelect: () => onAsk("scope") },
            { label: "New password", icon: "again", onSelect: () => onAsk("password") },
            isDisabled
              ? { label: "Enable", icon: "play", onSelect: () => onAsk("enable") }
              : { label: "Disable", icon: "pause", onSelect: () => onAsk("disable") },
            { label: "Remove", icon: "trash", danger: true, onSelect: () => onAsk("remove") },
          ]}
        />
      </div>
    </li>
  );
}

function waysOf(user: UserOut): string {
  if (user.issuer) return `by ${user.issuer}`;
  return user.has_password ? "with a password" : "with keys only";
}
