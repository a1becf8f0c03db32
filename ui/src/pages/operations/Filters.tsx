// The filters of the operations page: kind, outcome, node and text, kept in the URL.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { nodes } from "@/api/queries";
import { SearchField, SegmentedControl, Select, TextField } from "@/kit/fields";
import { OPERATION_KINDS, type OperationsSearch, OUTCOMES } from "@/pages/operations/search";
import type { OperationFilter } from "@/pages/operations/sections";

const LABELS = { models: "Models", backends: "Backends", cluster: "Loads and staging" } as const;
const ALL = "";

export function Filters({ filter }: { filter: OperationFilter }) {
  const navigate = useNavigate({ from: "/operations" });
  const { data: known = [] } = useQuery(nodes);
  const change = (changed: Partial<OperationFilter>) =>
    void navigate({ search: (before: OperationsSearch) => ({ ...before, ...changed }), replace: true });
  const names = known.map((node) => node.name).sort();
  if (filter.node && !names.includes(filter.node)) names.push(filter.node);
  return (
    <search className="operations-filters">
      <SegmentedControl
        label="Kind"
        value={filter.kind ?? "all"}
        options={[
          { value: "all" as const, label: "All" },
          ...OPERATION_KINDS.map((kind) => ({ value: kind, label: LABELS[kind] })),
        ]}
        onChange={(kind) => change({ kind: kind === "all" ? undefined : kind })}
      />
      <Select
        label="Outcome"
        value={filter.outcome ?? ALL}
        onChange={(event) => change({ outcome: OUTCOMES.find((one) => one === event.target.value) })}
      >
        <option value={ALL}>All</option>
        {OUTCOMES.map((outcome) => (
          <option key={outcome}>{outcome}</option>
        ))}
      </Select>
      <Select
        label="Node"
        value={filter.node ?? ALL}
        onChange={(event) => change({ node: event.target.value || undefined })}
      >
        <option value={ALL}>All</option>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </Select>
      <TextField
        label="From"
        type="date"
        value={filter.since ?? ""}
        max={filter.until}
        onChange={(event) => change({ since: event.target.value || undefined })}
      />
      <TextField
        label="To"
        type="date"
        value={filter.until ?? ""}
        min={filter.since}
        onChange={(event) => change({ until: event.target.value || undefined })}
      />
      <SearchField
        label="Search operations"
        value={filter.q ?? ""}
        onChange={(q) => change({ q: q || undefined })}
      />
    </search>
  );
}
