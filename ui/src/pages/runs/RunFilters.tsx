// The filters of the list of runs, kept in the URL.
import { SegmentedControl, Select } from "@/kit/fields";
import { RUN_KINDS, RUN_STATES, type RunsSearch } from "@/pages/runs/search";
import { describeRunKind, runWord } from "@/text/run";

const ALL = "";

interface RunFiltersProps {
  filter: RunsSearch;
  isAdmin: boolean;
  onChange: (part: Partial<RunsSearch>) => void;
}

export function RunFilters({ filter, isAdmin, onChange }: RunFiltersProps) {
  return (
    <search className="runs-filters">
      {isAdmin && (
        <SegmentedControl
          label="Whose runs"
          value={filter.owner ?? "mine"}
          options={[
            { value: "mine", label: "Mine" },
            { value: "everybody", label: "Everybody" },
          ]}
          onChange={(owner) => onChange({ owner: owner === "everybody" ? owner : undefined })}
        />
      )}
      <Select
        label="State"
        value={filter.state ?? ALL}
        onChange={(event) => onChange({ state: RUN_STATES.find((one) => one === event.target.value) })}
      >
        <option value={ALL}>All</option>
        {RUN_STATES.map((state) => (
          <option key={state} value={state}>
            {state === "open" ? "not ended" : runWord(state).text}
          </option>
        ))}
      </Select>
      <Select
        label="Kind"
        value={filter.kind ?? ALL}
        onChange={(event) => onChange({ kind: RUN_KINDS.find((one) => one === event.target.value) })}
      >
        <option value={ALL}>All</option>
        {RUN_KINDS.map((kind) => (
          <option key={kind} value={kind}>
            {describeRunKind(kind)}
          </option>
        ))}
      </Select>
      {filter.node && (
        <Select
          label="Node"
          value={filter.node}
          onChange={(event) => onChange({ node: event.target.value || undefined })}
        >
          <option value={ALL}>All</option>
          <option>{filter.node}</option>
        </Select>
      )}
    </search>
  );
}
