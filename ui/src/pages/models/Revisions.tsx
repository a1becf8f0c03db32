// The revisions of a model: who changed what and when, the diff of any two, and restoring one.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ModelOut, RevisionOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Select } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { revisionsQuery, rollBack } from "@/pages/models/calls";
import { ChangedLines, Diff } from "@/pages/models/Diff";
import { toYaml } from "@/pages/models/yaml";

export function Revisions({ model }: { model: ModelOut }) {
  const found = useQuery(revisionsQuery(model.name));
  return (
    <QueryView query={found}>
      {(all) => (
        <div className="stack">
          {all.length > 1 && <Compare all={all} />}
          <History model={model} all={all} />
        </div>
      )}
    </QueryView>
  );
}

function Compare({ all }: { all: RevisionOut[] }) {
  const newest = all[0]?.number ?? 1;
  const [chosen, choose] = useState<{ old: number | null; new: number | null }>({ old: null, new: null });
  const at = (number: number) => all.find((one) => one.number === number);
  const later = at(chosen.new ?? newest) ?? all[0];
  const earlier = at(chosen.old ?? newest - 1) ?? all[1];
  const options = all.map((one) => (
    <option key={one.number} value={one.number}>
      {one.number} by {one.created_by}
    </option>
  ));
  if (!later || !earlier) return null;
  const before = toYaml(earlier.config);
  const after = toYaml(later.config);
  return (
    <Panel title="Compare">
      <div className="columns">
        <Select
          label="Revision"
          value={earlier.number}
          onChange={(event) => choose({ ...chosen, old: Number(event.target.value) })}
        >
          {options}
        </Select>
        <Select
          label="With revision"
          value={later.number}
          onChange={(event) => choose({ ...chosen, new: Number(event.target.value) })}
        >
          {options}
        </Select>
      </div>
      {before === after ? (
        <p className="soft">The revisions are identical.</p>
      ) : (
        <Diff before={before} after={after} label={`Revision ${earlier.number} and ${later.number}`} />
      )}
    </Panel>
  );
}

function History({ model, all }: { model: ModelOut; all: RevisionOut[] }) {
  const toast = useToast();
  const [restored, setRestored] = useState<RevisionOut | null>(null);
  const present = all[0];
  return (
    <Panel title="History" note="Restoring creates a new revision.">
      <ol className="plain models-revisions" aria-label="Revisions, latest first">
        {all.map((one) => (
          <li key={one.number} className="models-revision" aria-label={`Revision ${one.number}`}>
            <div className="row apart">
              <span className="row">
                <strong className="number">{one.number}</strong>
                {one === present && <Tag tone="good">current</Tag>}
                <span>
                  by {one.created_by}, <RelativeTime at={one.created_at} />
                </span>
                {one.note && <span className="soft small">{one.note}</span>}
              </span>
              {one !== present && (
                <Button small aria-label={`Restore revision ${one.number}`} onClick={() => setRestored(one)}>
                  Restore
                </Button>
              )}
            </div>
            {(one.changes ?? []).length > 0 && <ChangedLines lines={one.changes ?? []} />}
          </li>
        ))}
      </ol>
      {restored && present && (
        <ConfirmDialog
          title={`Restore revision ${restored.number}`}
          verb={`Restore revision ${restored.number}`}
          danger={false}
          onClose={() => setRestored(null)}
          onConfirm={async () => {
            const saved = await rollBack(model.name, restored.number, present.number);
            toast(saved.message);
          }}
        >
          <div className="stack tight">
            <p>
              The model gets revision {present.number + 1}, with the configuration of revision{" "}
              {restored.number}.
              {restored.run_hash !== present.run_hash && (model.replicas?.length ?? 0) > 0
                ? " Running replicas stop after their in-flight requests."
                : " Running replicas are not affected."}
            </p>
            <Diff
              before={toYaml(present.config)}
              after={toYaml(restored.config)}
              label={`From revision ${present.number} to ${restored.number}`}
            />
          </div>
        </ConfirmDialog>
      )}
    </Panel>
  );
}
