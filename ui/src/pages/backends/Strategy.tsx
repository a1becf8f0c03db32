// How a change goes over its nodes: all at once or in waves, and what a failure does.
import type { StrategyIn } from "@/api/schema";
import { Checkbox, Select, TextField } from "@/kit/fields";
import { PACES, type Pace, wavesFor } from "@/pages/backends/picking";

export interface How {
  pace: Pace;
  custom: string;
  stops: boolean;
  returns: boolean;
}

const PACE_SAID: Record<Pace, string> = {
  once: "All nodes at once",
  careful: "One node first, then all others",
  single: "One node after the other",
  custom: "Waves of my own",
};

/** The strategy as it is sent; a text: what is wrong with it. */
export function strategyOf(how: How): StrategyIn | string {
  const waves = wavesFor(how.pace, how.custom);
  if (typeof waves === "string") return waves;
  return { waves, stop_on_failure: how.stops && waves.length > 0, rollback: how.returns };
}

export function Strategy({ how, onChange }: { how: How; onChange: (how: How) => void }) {
  const wrong = strategyOf(how);
  return (
    <div className="backends-strategy">
      <Select
        label="Order"
        value={how.pace}
        onChange={(event) => onChange({ ...how, pace: event.target.value as Pace })}
      >
        {PACES.map((pace) => (
          <option key={pace} value={pace}>
            {PACE_SAID[pace]}
          </option>
        ))}
      </Select>
      {how.pace === "custom" && (
        <TextField
          label="Nodes in each wave"
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
            hint="Later waves are not begun."
            checked={how.stops}
            onChange={(event) => onChange({ ...how, stops: event.target.checked })}
          />
        )}
        <Checkbox
          label="Go back after a failure"
          hint="Nodes that were changed get what they had."
          checked={how.returns}
          onChange={(event) => onChange({ ...how, returns: event.target.checked })}
        />
      </div>
    </div>
  );
}
