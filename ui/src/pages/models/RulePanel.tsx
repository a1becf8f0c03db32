// The rule of a model: where it may run and how many replicas it is to have.
import { useState } from "react";
import type { ModelOut, RuleOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Panel } from "@/kit/Panel";
import { deleteRule } from "@/pages/models/calls";
import { RuleForm } from "@/pages/models/RuleForm";
import { ruleSentence, windowSentence } from "@/pages/models/rule";
import { isUnmet } from "@/pages/models/state";
import { clock } from "@/text/format";

export function RulePanel({ model, rule }: { model: ModelOut; rule: RuleOut | undefined }) {
  const [open, setOpen] = useState<"edit" | "delete" | null>(null);
  const close = () => setOpen(null);
  return (
    <Panel
      title="Rule"
      actions={
        <>
          <Button
            small
            aria-label={`${rule ? "Edit" : "Add"} the rule of ${model.name}`}
            onClick={() => setOpen("edit")}
          >
            {rule ? "Edit" : "Add a rule"}
          </Button>
          {rule && (
            <Button
              small
              kind="quiet"
              aria-label={`Remove the rule of ${model.name}`}
              onClick={() => setOpen("delete")}
            >
              Remove
            </Button>
          )}
        </>
      }
    >
      {rule ? (
        <Shown rule={rule} />
      ) : (
        <p className="soft">None: it runs anywhere, once, when it is asked for.</p>
      )}
      {open === "edit" && <RuleForm model={model.name} rule={rule} onClose={close} />}
      {open === "delete" && (
        <Confirm
          title={`Remove the rule of ${model.name}`}
          verb="Remove the rule"
          onConfirm={() => deleteRule(model.name)}
          onClose={close}
        >
          Replicas that run stay until they are idle. After that the model runs anywhere, when it is asked
          for.
        </Confirm>
      )}
    </Panel>
  );
}

function Shown({ rule }: { rule: RuleOut }) {
  const windows = rule.windows ?? [];
  return (
    <div className="stack tight">
      <p>
        <strong>{ruleSentence(rule)}</strong>
      </p>
      {isUnmet(rule, Date.now()) && (
        <p className="models-warning small" role="status">
          It cannot be met now, and is tried again at {clock(rule.unsatisfiable_until ?? "")}, or when a node
          changes. “The next replica” says why.
        </p>
      )}
      {windows.length > 0 && (
        <ul className="models-list small">
          {windows.map((window) => (
            <li key={JSON.stringify(window)}>
              {windowSentence(window)} <span className="faint">{rule.time_zone}</span>
            </li>
          ))}
        </ul>
      )}
      {rule.route_policy && <p className="small soft">Requests are dealt out by {rule.route_policy}.</p>}
    </div>
  );
}
