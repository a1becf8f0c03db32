// The rule of a model: where it may run and how many replicas it is to have.
import { useState } from "react";
import type { ModelOut, RuleOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Panel } from "@/kit/Panel";
import { deleteRule } from "@/pages/models/calls";
import { RuleForm } from "@/pages/models/RuleForm";
import { ruleSentence, windowSentence } from "@/pages/models/rule";
import { formatMoment } from "@/text/format";

interface RulePanelProps {
  model: ModelOut;
  rule: RuleOut | undefined;
  isUnmet: boolean;
}

export function RulePanel({ model, rule, isUnmet }: RulePanelProps) {
  const [open, setOpen] = useState<"edit" | "delete" | null>(null);
  const close = () => setOpen(null);
  return (
    <Panel
      title="Rule"
      actions={
        <>
          <Button
            small
            aria-label={rule ? `Edit the rule of ${model.name}` : `Add a rule for ${model.name}`}
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
        <RuleView rule={rule} isUnmet={isUnmet} />
      ) : (
        <p className="soft">No rule: one replica on any node, on demand.</p>
      )}
      {open === "edit" && <RuleForm model={model.name} rule={rule} onClose={close} />}
      {open === "delete" && (
        <ConfirmDialog
          title={`Remove the rule of ${model.name}`}
          verb="Remove rule"
          onConfirm={() => deleteRule(model.name)}
          onClose={close}
        >
          Running replicas stay until idle. After that the model loads on demand on any node.
        </ConfirmDialog>
      )}
    </Panel>
  );
}

function RuleView({ rule, isUnmet }: { rule: RuleOut; isUnmet: boolean }) {
  const until = rule.unsatisfiable_until;
  const again = until && Date.parse(until) > Date.now() ? `at ${formatMoment(until)}, or` : "shortly, and";
  const windows = rule.windows ?? [];
  return (
    <div className="stack tight">
      <p>
        <strong>{ruleSentence(rule)}</strong>
      </p>
      {isUnmet && (
        <p className="models-warning small" role="status">
          Cannot be satisfied right now. Next attempt {again} when a node changes. See “Next replica” for the
          reason.
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
      {rule.route_policy && !rule.warnings?.length && (
        <p className="small soft">Requests are routed by {rule.route_policy}.</p>
      )}
      {rule.warnings?.map((warning) => (
        <p className="small soft" key={warning}>
          {warning}
        </p>
      ))}
    </div>
  );
}
