// The row of one user, with its actions.
import type { UserOut } from "@/api/schema";
import { Menu } from "@/kit/Menu";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { LabelledValue } from "@/pages/access/KeyRow";
import type { UserAction } from "@/pages/access/UserList";
import { formatCount } from "@/text/format";

interface UserRowProps {
  user: UserOut;
  keyCount: number;
  isOwn: boolean;
  onChoose: (kind: UserAction) => void;
}

export function UserRow({ user, keyCount, isOwn, onChoose }: UserRowProps) {
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
        <LabelledValue name="Sign-in">{describeSignIn(user)}</LabelledValue>
        <LabelledValue name="Keys">{formatCount(keyCount)}</LabelledValue>
        <LabelledValue name="Since">
          <RelativeTime at={user.created_at} />
        </LabelledValue>
        <LabelledValue name="Created by">{user.created_by}</LabelledValue>
      </dl>
      <div className="row access-actions">
        <Menu
          label={`Actions for ${user.name}`}
          items={[
            { label: "Change scope", icon: "key", onSelect: () => onChoose("scope") },
            { label: "New password", icon: "again", onSelect: () => onChoose("password") },
            isDisabled
              ? { label: "Enable", icon: "play", onSelect: () => onChoose("enable") }
              : { label: "Disable", icon: "pause", onSelect: () => onChoose("disable") },
            { label: "Remove", icon: "trash", danger: true, onSelect: () => onChoose("remove") },
          ]}
        />
      </div>
    </li>
  );
}

function describeSignIn(user: UserOut): string {
  if (user.issuer) return user.issuer;
  return user.has_password ? "password" : "keys only";
}
