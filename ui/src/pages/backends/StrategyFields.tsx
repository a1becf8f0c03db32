// Form fields for the rollout: all nodes at once or in waves, and what happens after a failure.
import type { StrategyIn } from "@/api/schema";
import { Checkbox, Select, TextField } from "@/kit/fields";
import { parseWaves, ROLLOUT_PACES, type RolloutPace } from "@/pages/backends/nodeChoice";

export interface StrategyDraft {
  pace: RolloutPace;
  custom: string;
  stops: boolean;
  returns: boolean;
}

const PACE_WORDS: Record<RolloutPace, string> = {
  once: "All nodes at once",
  careful: "Canary: one node, then the rest",
  single: "One node at a time",
  custom: "Custom waves",
};

/** The strategy for the request body, or a sentence about what is wrong with the input. */
export function parseStrategy(how: StrategyDraft): StrategyIn | string {
  const waves = parseWaves(how.pace, how.custom);
  if (typeof waves === "string") return waves;
  return { waves, stop_on_failure: how.stops && waves.length > 0, rollback: how.returns };
}

export function StrategyFields({
  how,
  onChange,
}: {
  how: StrategyDraft;
  onChange: (how: StrategyDraft) => void;
}) {
  const wrong = parseStrategy(how);
  return (
    <div className="backends-strategy">
      <Select
        label="Order"
        value={how.pace}
        onChange={(event) => onChange({ ...how, pace: event.target.value as RolloutPace })}
      >
        {ROLLOUT_PACES.map((pace) => (
          <option key={pace} value={pace}>
            {PACE_WORDS[pace]}
          </option>
        ))}
      </Select>
      {how.pace === "custom" && (
        <TextField
          label="Nodes per wave"
          hint="The last number repeats."
          placeholder="1,5"
          value={how.custom}
          error={typeof wrong === "string" && how.custom ? wrong : null}
          onChange={(event) => onChange({ ...how, custom: event.target.value })}
        />
      )}
      <div className="stack tight">
        {how.pace !== "once" && (
          <Checkbox
            label="Stop after a failure"
            hint="Later waves are skipped."
            checked={how.stops}
            onChange={(event) => onChange({ ...how, stops: event.target.checked })}
          />
        )}
        <Checkbox
          label="Roll back after a failure"
          hint="Changed nodes get their previous version."
          checked={how.returns}
          onChange={(event) => onChange({ ...how, returns: event.target.checked })}
        />
      </div>
    </div>
  );
}
