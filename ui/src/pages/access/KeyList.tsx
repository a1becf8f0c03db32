// Every key, and the dialogs that are about one of them.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { KeyMade, KeyOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Empty } from "@/kit/Panel";
import { keys } from "@/pages/access/calls";
import { KeyDialog } from "@/pages/access/KeyDialog";
import { KeyRow } from "@/pages/access/KeyRow";
import { shownKeys } from "@/pages/access/listing";
import { RevokeDialog } from "@/pages/access/RevokeDialog";
import { RotateDialog } from "@/pages/access/RotateDialog";
import { SecretDialog } from "@/pages/access/SecretDialog";
import { useMe } from "@/shell/me";
import { useAddress } from "@/shell/useAddress";

type Asked = { kind: "rotate" | "revoke"; key: KeyOut };

export function KeyList() {
  const [{ q = "", show, new: isNew, key: changed }, say] = useAddress("/access");
  const me = useMe();
  const asked = useQuery(keys);
  const [made, setMade] = useState<KeyMade | null>(null);
  const [about, ask] = useState<Asked | null>(null);
  const close = () => ask(null);
  const edited = asked.data?.find((key) => key.id === changed);
  return (
    <>
      <Answered query={asked}>
        {(all) => {
          const shown = shownKeys(all, q, show !== "all");
          if (shown.length === 0) return <Nothing all={all} />;
          return (
            <ul className="plain access-list" aria-label="Keys">
              {shown.map((key) => (
                <KeyRow
                  key={key.id}
                  entry={key}
                  isOwn={key.id === me.key_id}
                  onEdit={() => say({ key: key.id })}
                  onRotate={() => ask({ kind: "rotate", key })}
                  onRevoke={() => ask({ kind: "revoke", key })}
                />
              ))}
            </ul>
          );
        }}
      </Answered>
      {isNew && <KeyDialog entry={null} onClose={() => say({ new: undefined }, true)} onMade={setMade} />}
      {edited && <KeyDialog entry={edited} onClose={() => say({ key: undefined }, true)} onMade={setMade} />}
      {about?.kind === "rotate" && (
        <RotateDialog entry={about.key} isOwn={about.key.id === me.key_id} onClose={close} onMade={setMade} />
      )}
      {about?.kind === "revoke" && (
        <RevokeDialog entry={about.key} isOwn={about.key.id === me.key_id} onClose={close} />
      )}
      {made && <SecretDialog made={made} onClose={() => setMade(null)} />}
    </>
  );
}

function Nothing({ all }: { all: KeyOut[] }) {
  return all.length === 0 ? (
    <Empty title="There is no key yet.">Make one for each program, so that each can be stopped alone.</Empty>
  ) : (
    <Empty title="No key is like that.">Another word finds more, and so does showing all.</Empty>
  );
}
