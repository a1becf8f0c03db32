// The row of one stored secret: its reference, and when it was set and used. The page never gets its value.
import type { SecretOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Menu } from "@/kit/Menu";
import { RelativeTime } from "@/kit/RelativeTime";
import { LabelledValue } from "@/pages/access/KeyRow";

interface SecretRowProps {
  secret: SecretOut;
  /** Null where the caller may not change it. */
  onReplace: (() => void) | null;
  onDelete: (() => void) | null;
}

export function SecretRow({ secret, onReplace, onDelete }: SecretRowProps) {
  const { name } = secret;
  return (
    <li className="access-row access-secret" aria-label={name}>
      <div className="access-name">
        <strong>{name}</strong>
      </div>
      <dl className="access-facts">
        <LabelledValue name="Reference">
          <code>{secret.reference}</code>
        </LabelledValue>
        <LabelledValue name="Set">
          <RelativeTime at={secret.updated_at} /> by {secret.changed_by}
        </LabelledValue>
        <LabelledValue name="Last used">
          <RelativeTime at={secret.last_used_at} />
        </LabelledValue>
      </dl>
      <div className="row access-actions">
        {onReplace && (
          <Button small aria-label={`Replace the value of ${name}`} onClick={onReplace}>
            Replace
          </Button>
        )}
        {onDelete && (
          <Menu
            label={`Actions for ${name}`}
            items={[{ label: "Delete", icon: "trash", danger: true, onSelect: onDelete }]}
          />
        )}
      </div>
    </li>
  );
}
