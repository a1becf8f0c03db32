// Join tokens: with one a machine becomes a node.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { TokenOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Checkbox } from "@/kit/fields";
import { Empty, Panel } from "@/kit/Panel";
import { Pill, Tag } from "@/kit/status";
import { revokeToken, tokens } from "@/pages/settings/calls";
import { shownTokens, tokenState, tokenTone, usesWords } from "@/pages/settings/listing";
import { TokenDialog } from "@/pages/settings/TokenDialog";
import { useAddress } from "@/shell/useAddress";

export function Tokens() {
  const [{ all = false }, say] = useAddress("/settings");
  const asked = useQuery(tokens);
  const [isNew, setNew] = useState(false);
  const [revoked, revoke] = useState<TokenOut | null>(null);
  return (
    <Panel
      title="Join tokens"
      note="A machine joins with one. Machines that have joined stay, whatever becomes of the token."
      actions={
        <>
          <Checkbox
            label="Also those that ended"
            checked={all}
            onChange={(event) => say({ all: event.target.checked || undefined })}
          />
          <Button small kind="primary" icon="plus" onClick={() => setNew(true)}>
            New token
          </Button>
        </>
      }
    >
      <Answered query={asked}>
        {(known) => {
          const shown = shownTokens(known, all);
          if (shown.length === 0) {
            return <Empty title="No token works now.">Make one when a machine is to join.</Empty>;
          }
          return (
            <ul className="plain settings-list" aria-label="Join tokens">
              {shown.map((token) => (
                <Token key={token.id} token={token} onRevoke={() => revoke(token)} />
              ))}
            </ul>
          );
        }}
      </Answered>
      {isNew && <TokenDialog onClose={() => setNew(false)} />}
      {revoked && (
        <Confirm
          title={`Revoke ${revoked.name}?`}
          verb={`Revoke ${revoked.name}`}
          onConfirm={() => revokeToken(revoked.id)}
          onClose={() => revoke(null)}
        >
          <p>No machine can join with it any more. Machines that did stay.</p>
        </Confirm>
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
          {token.prefix}…, by {token.created_by}, <Ago at={token.created_at} />
        </p>
      </div>
      <div className="row">
        <Pill tone={tokenTone(token.state)}>{tokenState(token.state)}</Pill>
        {token.approves && <Tag tone="warn">approves</Tag>}
      </div>
      <span className="small">used {usesWords(token)}</span>
      <div className="row apart small soft">
        <span>{token.expires_at ? <Ends token={token} /> : "does not end"}</span>
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

function Ends({ token }: { token: TokenOut }) {
  return (
    <>
      {token.state === "expired" ? "ended " : "ends "}
      <Ago at={token.expires_at} />
    </>
  );
}
