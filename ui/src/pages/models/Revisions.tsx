// What a model was: who changed what and when, any two side by side, and the way back.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ModelOut, RevisionOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Select } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { revisionsOf, rollBack } from "@/pages/models/calls";
import { Changes, Diff } from "@/pages/models/Diff";
import { toYaml } from "@/pages/models/yaml";

export function Revisions({ model }: { model: ModelOut }) {
  const found = useQuery(revisionsOf(model.name));
  return (
    <Answered query={found}>
      {(all) => (
        <div className="stack">
          {all.length > 1 && <Compare all={all} />}
          <History model={model} all={all} />
        </div>
      )}
    </Answered>
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
        <p className="soft">They say the same.</p>
      ) : (
        <Diff before={before} after={after} label={`Revision ${earlier.number} and ${later.number}`} />
      )}
    </Panel>
  );
}

function History({ model, all }: { model: ModelOut; all: RevisionOut[] }) {
  const toast = useToast();
  const [back, setBack] = useState<RevisionOut | null>(null);
  const present = all[0];
  return (
    <Panel title="History" note="Going back makes a new revision; nothing is lost.">
      <ol className="plain models-revisions" aria-label="Revisions, the newest first">
        {all.map((one) => (
          <li key={one.number} className="models-revision" aria-label={`Revision ${one.number}`}>
            <div className="row apart">
              <span className="row">
                <strong className="number">{one.number}</strong>
                {one === present && <Tag tone="good">now</Tag>}
                <span>
                  by {one.created_by}, <Ago at={one.created_at} />
                </span>
                {one.note && <span className="soft small">{one.note}</span>}
              </span>
              {one !== present && (
                <Button small aria-label={`Go back to revision ${one.number}`} onClick={() => setBack(one)}>
                  Go back
                </Button>
              )}
            </div>
            {(one.changes ?? []).length > 0 && <Changes lines={one.changes ?? []} />}
          </li>
        ))}
      </ol>
      {back && present && (
        <Confirm
          title={`Go back to revision ${back.number}`}
          verb={`Go back to revision ${back.number}`}
          danger={false}
          onClose={() => setBack(null)}
          onConfirm={async () => {
            const saved = await rollBack(model.name, back.number, present.number);
            toast(saved.message);
          }}
        >
          <div className="stack tight">
            <p>
              The model gets revision {present.number + 1}, which says the same as revision {back.number}.
              {back.run_hash !== present.run_hash && (model.replicas?.length ?? 0) > 0
                ? " Replicas that run now end when they have answered."
                : " Nothing that runs is touched."}
            </p>
            <Diff
              before={toYaml(present.config)}
              after={toYaml(back.config)}
              label={`From revision ${present.number} to ${back.number}`}
            />
          </div>
        </Confirm>
      )}
    </Panel>
  );
}
