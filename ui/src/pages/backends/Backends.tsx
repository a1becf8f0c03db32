// Backends: the fleet as a matrix, the catalog, and what is installed.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Waiting } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Segments } from "@/kit/fields";
import { PageHead } from "@/kit/Panel";
import { Trouble } from "@/kit/Trouble";
import { useToast } from "@/kit/toasts";
import { CatalogView } from "@/pages/backends/CatalogView";
import { type Change, ChangeDialog } from "@/pages/backends/ChangeDialog";
import { checkUpgrades } from "@/pages/backends/data";
import { InstalledView } from "@/pages/backends/InstalledView";
import { MatrixView } from "@/pages/backends/MatrixView";
import { UpgradeAll } from "@/pages/backends/UpgradeAll";
import { useFleet } from "@/pages/backends/useFleet";
import { useAddress } from "@/shell/useAddress";
import "@/pages/backends/backends.css";
import "@/pages/backends/dialogs.css";
import "@/pages/backends/matrix.css";

const LOOK_AGAIN_MS = 3000;
/** What another view would not understand. */
const ELSEWHERE = {
  q: undefined,
  tag: undefined,
  backend: undefined,
  node: undefined,
  show: undefined,
  filter: undefined,
};

export default function Backends() {
  const [{ view = "matrix" }, say] = useAddress("/backends");
  const known = useFleet();
  const [change, setChange] = useState<Change | null>(null);
  const [isUpgrading, setUpgrading] = useState(false);
  const onChange = useCallback((wanted: Change) => setChange(wanted), []);
  const upgrades = Object.keys(known.fleet.upgrades).length;
  return (
    <>
      <PageHead title="Backends" note="Engines: what there is, what is installed where, and changing it.">
        <CheckButton />
        {upgrades > 0 && (
          <Button icon="up" onClick={() => setUpgrading(true)}>
            Upgrade all ({upgrades})
          </Button>
        )}
      </PageHead>
      <div className="stack">
        <div className="row">
          <Segments
            label="View"
            value={view}
            options={[
              { value: "matrix", label: "Fleet" },
              { value: "catalog", label: "Catalog" },
              { value: "installed", label: "Installed", count: known.fleet.installed.length },
            ]}
            onChange={(wanted) => say({ ...ELSEWHERE, view: wanted === "matrix" ? undefined : wanted })}
          />
        </div>
        <Trouble error={known.error} onRetry={known.onRetry} />
        {!known.isReady ? (
          !known.error && <Waiting lines={6} />
        ) : view === "catalog" ? (
          <CatalogView known={known} onChange={onChange} />
        ) : view === "installed" ? (
          <InstalledView known={known} onChange={onChange} />
        ) : (
          <MatrixView known={known} onChange={onChange} />
        )}
      </div>
      {change && (
        <ChangeDialog
          key={`${change.verb} ${change.backend}`}
          change={change}
          known={known}
          onClose={() => setChange(null)}
        />
      )}
      {isUpgrading && <UpgradeAll upgrades={known.fleet.upgrades} onClose={() => setUpgrading(false)} />}
    </>
  );
}

/** Registries are asked in the background; nothing is told when that has ended, so this looks again once. */
function CheckButton() {
  const cache = useQueryClient();
  const toast = useToast();
  const check = useMutation({
    mutationFn: checkUpgrades,
    onSuccess: () => {
      toast("Galleries and registries are being asked.");
      const look = () => void cache.invalidateQueries({ queryKey: ["backends"] });
      look();
      window.setTimeout(look, LOOK_AGAIN_MS);
    },
  });
  return (
    <>
      <Trouble error={check.error} />
      <Button icon="again" busy={check.isPending} onClick={() => check.mutate()}>
        Check for upgrades
      </Button>
    </>
  );
}
