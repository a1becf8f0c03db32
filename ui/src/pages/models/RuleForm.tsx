// The form of a rule. The server validates it, and its error is shown here.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { nodes } from "@/api/queries";
import type { RuleOut } from "@/api/schema";
import { Button, IconButton } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { SegmentedControl, Select, TextField } from "@/kit/fields";
import { useToast } from "@/kit/toasts";
import { putRule } from "@/pages/models/calls";
import {
  makeDraft,
  makeRuleBody,
  type RuleDraft,
  routingOptions,
  type WindowDraft,
} from "@/pages/models/rule";

interface RuleFormProps {
  model: string;
  rule: RuleOut | undefined;
  onClose: () => void;
}

export function RuleForm({ model, rule, onClose }: RuleFormProps) {
  const toast = useToast();
  const queries = useQueryClient();
  const { data: all } = useQuery(nodes);
  const [draft, setDraft] = useState(() => makeDraft(rule));
  const set = (change: Partial<RuleDraft>) => setDraft((before) => ({ ...before, ...change }));
  const save = useMutation({
    mutationFn: () => putRule(model, makeRuleBody(draft)),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["rules"] });
      toast(`Saved the rule of ${model}.`);
      onClose();
    },
  });
  const labels = [
    ...new Set(
      (all ?? []).flatMap((node) => Object.entries(node.labels).map(([key, value]) => `${key}=${value}`)),
    ),
  ].sort();
  return (
    <Dialog
      wide
      title={`Rule of ${model}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" busy={save.isPending} onClick={() => save.mutate()}>
            Save rule
          </Button>
        </>
      }
    >
      <SegmentedControl
        label="Replicas"
        value={draft.mode}
        options={[
          { value: "range", label: "A range" },
          { value: "everywhere", label: "One on every node" },
        ]}
        onChange={(mode) => set({ mode })}
      />
      {draft.mode === "range" && (
        <div className="columns">
          <TextField
            label="Minimum"
            hint="0: load on demand."
            inputMode="numeric"
            value={draft.min}
            onChange={(event) => set({ min: event.target.value })}
          />
          <TextField
            label="Maximum"
            hint="Empty: no limit."
            inputMode="numeric"
            value={draft.max}
            onChange={(event) => set({ max: event.target.value })}
          />
        </div>
      )}
      <TextField
        label="Only on nodes with these labels"
        hint={
          labels.length
            ? `For example ${labels.slice(0, 5).join(", ")}. Empty: any node.`
            : "Empty: any node."
        }
        value={draft.selector}
        onChange={(event) => set({ selector: event.target.value })}
      />
      <Select
        label="Routing"
        hint="How requests are given to the replicas."
        value={draft.routing}
        onChange={(event) => set({ routing: event.target.value })}
      >
        {routingOptions(rule?.route_policy ?? "").map((option) => (
          <option key={option.value} value={option.value}>
            {option.text}
          </option>
        ))}
      </Select>
      <Windows draft={draft} set={set} />
      <ErrorNotice error={save.error} />
    </Dialog>
  );
}

function Windows({ draft, set }: { draft: RuleDraft; set: (change: Partial<RuleDraft>) => void }) {
  const change = (key: number, to: Partial<WindowDraft>) =>
    set({ windows: draft.windows.map((window) => (window.key === key ? { ...window, ...to } : window)) });
  const add = () => {
    const key = Math.max(-1, ...draft.windows.map((window) => window.key)) + 1;
    const made = { key, cron: "0 8 * * 1-5", duration: "10h", min: "2", max: "" };
    set({ windows: [...draft.windows, made] });
  };
  const field = (window: WindowDraft, name: "cron" | "duration" | "min" | "max", label: string) => (
    <TextField
      label={label}
      aria-label={`${label}, schedule ${window.key + 1}`}
      value={window[name]}
      onChange={(event) => change(window.key, { [name]: event.target.value })}
    />
  );
  return (
    <fieldset className="models-options">
      <legend>Schedules</legend>
      {draft.windows.map((window) => (
        <div key={window.key} className="models-window">
          {field(window, "cron", "Start (cron)")}
          {field(window, "duration", "Duration")}
          {field(window, "min", "Minimum")}
          {field(window, "max", "Maximum")}
          <IconButton
            icon="trash"
            label={`Remove schedule ${window.key + 1}`}
            onClick={() => set({ windows: draft.windows.filter((one) => one.key !== window.key) })}
          />
        </div>
      ))}
      {draft.windows.length > 0 && (
        <TextField
          label="Time zone"
          hint="For example Europe/Berlin."
          value={draft.timeZone}
          onChange={(event) => set({ timeZone: event.target.value })}
        />
      )}
      <div>
        <Button small icon="plus" onClick={add}>
          Add schedule
        </Button>
      </div>
    </fieldset>
  );
}
