// Join tokens: with one a machine becomes a node.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { TokenOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Checkbox } from "@/kit/fields";
import { EmptyState, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { revokeToken, tokens } from "@/pages/settings/calls";
import { filterTokens, tokenState, tokenTone, usesWords } from "@/pages/settings/settingsLists";
import { TokenDialog } from "@/pages/settings/TokenDialog";
import { usePageSearch } from "@/shell/usePageSearch";

export function Tokens() {
  const [{ all = false }, setSearch] = usePageSearch("/settings");
  const query = useQuery(tokens);
  const [isNew, setNew] = useState(false);
  const [revoked, revoke] = useState<TokenOut | null>(null);
  return (
    <Panel
      title="Join tokens"
      note="Machines join with a token. Revoking a token does not remove machines that have joined."
      actions={
        <>
          <Checkbox
            label="Show expired and revoked"
            checked={all}
            onChange={(event) => setSearch({ all: event.target.checked || undefined })}
          />
          <Button small kind="primary" icon="plus" onClick={() => setNew(true)}>
            New token
          </Button>
        </>
      }
    >
      <QueryView query={query}>
        {(known) => {
          const shown = filterTokens(known, all);
          if (shown.length === 0) {
            return <EmptyState title="No active tokens.">Create one to add a machine.</EmptyState>;
          }
          return (
            <ul className="plain settings-list" aria-label="Join tokens">
              {shown.map((token) => (
                <Token key={token.id} token={token} onRevoke={() => revoke(token)} />
              ))}
            </ul>
          );
        }}
      </QueryView>
      {isNew && <TokenDialog onClose={() => setNew(false)} />}
      {revoked && (
        <ConfirmDialog
          title={`Revoke ${revoked.name}?`}
          verb={`Revoke ${revoked.name}`}
          onConfirm={() => revokeToken(revoked.id)}
          onClose={() => revoke(null)}
        >
          <p>No machine can join with this token any more. Joined machines stay.</p>
        </ConfirmDialog>
      )}
    </Panel>
  );
}

function Token({ token, onRevoke }: { token: TokenOut; onRevoke: () => void }) {
  return (
    <li className="settings-row" aria-label={token.name}>
      <div>
        <strong>{token.name}</strong>
        <p className="small faint settings-id">
          {token.prefix}…, by {token.created_by}, <RelativeTime at={token.created_at} />
        </p>
      </div>
      <div className="row">
        <Pill tone={tokenTone(token.state)}>{tokenState(token.state)}</Pill>
        {token.approves && <Tag tone="warn">auto-approve</Tag>}
      </div>
      <span className="small">used {usesWords(token)}</span>
      <div className="row apart small soft">
        <span>{token.expires_at ? <ExpiryText token={token} /> : "no expiry"}</span>
        {token.state === "active" && (
          <Button
            small
            kind="danger"
            aria-label={`Revoke ${token.name} (${token.prefix})`}
            onClick={onRevoke}
          >
            Revoke
          </Button>
        )}
      </div>
    </li>
  );
}

function ExpiryText({ token }: { token: TokenOut }) {
  return (
    <>
      {token.state === "expired" ? "expired " : "expires "}
      <RelativeTime at={token.expires_at} />
    </>
  );
}
