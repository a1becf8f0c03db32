// The cluster itself: its frontends, what they were told, where things come from, how machines join, who did what.
import { Segments } from "@/kit/fields";
import { PageHead } from "@/kit/Panel";
import { Audit } from "@/pages/settings/Audit";
import { Cluster } from "@/pages/settings/Cluster";
import { Configuration } from "@/pages/settings/Configuration";
import { Galleries } from "@/pages/settings/Galleries";
import { Tokens } from "@/pages/settings/Tokens";
import { useAddress } from "@/shell/useAddress";
import "@/pages/settings/settings.css";

const TABS = [
  { value: "cluster", label: "Cluster" },
  { value: "configuration", label: "Configuration" },
  { value: "galleries", label: "Galleries" },
  { value: "tokens", label: "Join tokens" },
  { value: "audit", label: "Audit log" },
] as const;

export default function Settings() {
  const [{ tab = "cluster" }, say] = useAddress("/settings");
  return (
    <>
      <PageHead title="Settings" />
      <div className="settings-tabs">
        <Segments
          label="Part of the settings"
          value={tab}
          options={TABS}
          onChange={(word) => say({ tab: word === "cluster" ? undefined : word, q: undefined })}
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
