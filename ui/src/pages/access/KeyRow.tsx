// The row of one key: scope, limits, owner and expiry.
import type { KeyOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Menu } from "@/kit/Menu";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { isWorkingKey, limitWords, pickTone } from "@/pages/access/accessLists";
import { findStateWord } from "@/text/stateWords";

interface KeyRowProps {
  entry: KeyOut;
  isOwn: boolean;
  onEdit: () => void;
  onRotate: () => void;
  onRevoke: () => void;
}

export function KeyRow({ entry, isOwn, onEdit, onRotate, onRevoke }: KeyRowProps) {
  const canChange = entry.state !== "revoked";
  return (
    <li className={isWorkingKey(entry) ? "access-row" : "access-row access-ended"} aria-label={entry.name}>
      <div className="access-name">
        <strong>{entry.name}</strong>
        <span className="row">
          <code className="faint">{entry.prefix}…</code>
          {isOwn && <Tag tone="busy">signed in with this key</Tag>}
          {entry.node_id && <Tag>agent node</Tag>}
        </span>
      </div>
      <div className="row access-state">
        <Pill tone={pickTone(entry.state)}>{findStateWord("secret", entry.state)}</Pill>
        <Tag tone={entry.scope === "admin" ? "warn" : undefined}>{entry.scope}</Tag>
      </div>
      <dl className="access-facts">
        <LabelledValue name="Models">
          {entry.models ? <Patterns patterns={entry.models} /> : "all models"}
        </LabelledValue>
        <LabelledValue name="Limits">
          {entry.limits?.length ? (
            <ul className="plain">
              {entry.limits.flatMap(limitWords).map((words) => (
                <li key={words}>{words}</li>
              ))}
            </ul>
          ) : (
            "none"
          )}
        </LabelledValue>
        <LabelledValue name="Owner">{entry.user_name ?? "no owner"}</LabelledValue>
        <LabelledValue name="Last used">
          <RelativeTime at={entry.last_used_at} />
        </LabelledValue>
        <ExpiryText entry={entry} />
      </dl>
      <div className="row access-actions">
        {canChange && (
          <Button small aria-label={`Edit ${entry.name}`} onClick={onEdit}>
            Edit
          </Button>
        )}
        {canChange && (
          <Menu
            label={`Actions for ${entry.name}`}
            items={[
              { label: "Rotate", icon: "again", onSelect: onRotate },
              { label: "Revoke", icon: "cross", danger: true, onSelect: onRevoke },
            ]}
          />
        )}
      </div>
    </li>
  );
}

function ExpiryText({ entry }: { entry: KeyOut }) {
  if (entry.revoked_at) {
    return (
      <LabelledValue name="Revoked">
        <RelativeTime at={entry.revoked_at} />
      </LabelledValue>
    );
  }
  return (
    <>
      <LabelledValue name={entry.state === "expired" ? "Expired" : "Expires"}>
        {entry.expires_at ? <RelativeTime at={entry.expires_at} /> : "never"}
      </LabelledValue>
      {entry.previous_until && (
        <LabelledValue name="Old secret works until">
          <RelativeTime at={entry.previous_until} />
        </LabelledValue>
      )}
    </>
  );
}

function Patterns({ patterns }: { patterns: string[] }) {
  if (patterns.length === 0) return <>none</>;
  return (
    <span className="row access-patterns">
      {patterns.map((pattern) => (
        <Tag key={pattern}>{pattern}</Tag>
      ))}
    </span>
  );
}

export function LabelledValue({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="small soft">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
