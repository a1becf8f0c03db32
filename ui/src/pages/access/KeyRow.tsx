// One key: what it may, how much, whose it is, and until when.
import type { KeyOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Button } from "@/kit/Button";
import { Menu } from "@/kit/Menu";
import { Pill, Tag } from "@/kit/status";
import { limitWords, toneOf, works } from "@/pages/access/listing";

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
    <li className={works(entry) ? "access-row" : "access-row access-ended"} aria-label={entry.name}>
      <div className="access-name">
        <strong>{entry.name}</strong>
        <span className="row">
          <code className="faint">{entry.prefix}…</code>
          {isOwn && <Tag tone="busy">you came in with it</Tag>}
          {entry.node_id && <Tag>of an agent node</Tag>}
        </span>
      </div>
      <div className="row access-state">
        <Pill tone={toneOf(entry.state)}>{entry.state}</Pill>
        <Tag tone={entry.scope === "admin" ? "warn" : undefined}>{entry.scope}</Tag>
      </div>
      <dl className="access-facts">
        <Fact name="Models">{entry.models ? <Patterns patterns={entry.models} /> : "every model"}</Fact>
        <Fact name="Limits">
          {entry.limits?.length ? (
            <ul className="plain">
              {entry.limits.flatMap(limitWords).map((words) => (
                <li key={words}>{words}</li>
              ))}
            </ul>
          ) : (
            "none"
          )}
        </Fact>
        <Fact name="Owner">{entry.user_name ?? "nobody"}</Fact>
        <Fact name="Last used">
          <Ago at={entry.last_used_at} />
        </Fact>
        <Ends entry={entry} />
      </dl>
      <div className="row access-actions">
        {canChange && (
          <Button small aria-label={`Edit ${entry.name}`} onClick={onEdit}>
            Edit
          </Button>
        )}
        {canChange && (
          <Menu
            label={`More about ${entry.name}`}
            items={[
              { label: "Rotate its secret", icon: "again", onSelect: onRotate },
              { label: "Revoke it", icon: "cross", danger: true, onSelect: onRevoke },
            ]}
          />
        )}
      </div>
    </li>
  );
}

function Ends({ entry }: { entry: KeyOut }) {
  if (entry.revoked_at) {
    return (
      <Fact name="Revoked">
        <Ago at={entry.revoked_at} />
      </Fact>
    );
  }
  return (
    <>
      <Fact name={entry.state === "expired" ? "Ended" : "Ends"}>
        {entry.expires_at ? <Ago at={entry.expires_at} /> : "never"}
      </Fact>
      {entry.previous_until && (
        <Fact name="Old secret works until">
          <Ago at={entry.previous_until} />
        </Fact>
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

export function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="small soft">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
