// The settings page: the cluster and its frontends, their configuration, galleries, join tokens and the audit log.
import { SegmentedControl } from "@/kit/fields";
import { PageHeader } from "@/kit/Panel";
import { Audit } from "@/pages/settings/Audit";
import { Cluster } from "@/pages/settings/Cluster";
import { Configuration } from "@/pages/settings/Configuration";
import { Galleries } from "@/pages/settings/Galleries";
import { Tokens } from "@/pages/settings/Tokens";
import { usePageSearch } from "@/shell/usePageSearch";
import "@/pages/settings/settings.css";

const TABS = [
  { value: "cluster", label: "Cluster" },
  { value: "configuration", label: "Configuration" },
  { value: "galleries", label: "Galleries" },
  { value: "tokens", label: "Join tokens" },
  { value: "audit", label: "Audit log" },
] as const;

export default function Settings() {
  const [{ tab = "cluster" }, setSearch] = usePageSearch("/settings");
  return (
    <>
      <PageHeader title="Settings" />
      <div className="settings-tabs">
        <SegmentedControl
          label="Section"
          value={tab}
          options={TABS}
          onChange={(word) => setSearch({ tab: word === "cluster" ? undefined : word, q: undefined })}
        />
      </div>
      {tab === "cluster" && <Cluster />}
      {tab === "configuration" && <Configuration />}
      {tab === "galleries" && <Galleries />}
      {tab === "tokens" && <Tokens />}
      {tab === "audit" && <Audit />}
    </>
  );
}
