// The backends page: the fleet as a matrix, the catalog, and the list of installed backends.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { SegmentedControl } from "@/kit/fields";
import { PageHeader } from "@/kit/Panel";
import { LoadingLines } from "@/kit/QueryView";
import { useToast } from "@/kit/toasts";
import { CatalogView } from "@/pages/backends/CatalogView";
import { ChangeDialog, type ChangeDraft } from "@/pages/backends/ChangeDialog";
import { checkUpgrades } from "@/pages/backends/calls";
import { InstalledView } from "@/pages/backends/InstalledView";
import { MatrixView } from "@/pages/backends/MatrixView";
import { UpgradeAll } from "@/pages/backends/UpgradeAll";
import { useFleet } from "@/pages/backends/useFleet";
import { usePageSearch } from "@/shell/usePageSearch";
import "@/pages/backends/backends.css";
import "@/pages/backends/dialogs.css";
import "@/pages/backends/matrix.css";

const CHECK_READ_MS = 3000;
/** Search parameters that do not apply to another view. */
const CLEARED_SEARCH = {
  q: undefined,
  tag: undefined,
  backend: undefined,
  node: undefined,
  show: undefined,
  filter: undefined,
};

export default function Backends() {
  const [{ view = "matrix" }, setSearch] = usePageSearch("/backends");
  const known = useFleet();
  const [change, setChange] = useState<ChangeDraft | null>(null);
  const [isUpgrading, setUpgrading] = useState(false);
  const onChange = useCallback((chosen: ChangeDraft) => setChange(chosen), []);
  const upgrades = Object.keys(known.fleet.upgrades).length;
  return (
    <>
      <PageHeader title="Backends" note="Install, upgrade and remove inference engines on nodes.">
        <CheckButton />
        {upgrades > 0 && (
          <Button icon="up" onClick={() => setUpgrading(true)}>
            Upgrade all ({upgrades})
          </Button>
        )}
      </PageHeader>
      <div className="stack">
        <div className="row">
          <SegmentedControl
            label="View"
            value={view}
            options={[
              { value: "matrix", label: "Fleet" },
              { value: "catalog", label: "Catalog" },
              { value: "installed", label: "Installed", count: known.fleet.installed.length },
            ]}
            onChange={(chosen) =>
              setSearch({ ...CLEARED_SEARCH, view: chosen === "matrix" ? undefined : chosen })
            }
          />
        </div>
        <ErrorNotice error={known.error} onRetry={known.onRetry} />
        {!known.isReady ? (
          !known.error && <LoadingLines lines={6} />
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

/** The server checks registries in the background and sends no event at the end, so the page refetches once. */
function CheckButton() {
  const cache = useQueryClient();
  const toast = useToast();
  const check = useMutation({
    mutationFn: checkUpgrades,
    onSuccess: () => {
      toast("Checking galleries and registries.");
      const look = () => void cache.invalidateQueries({ queryKey: ["backends"] });
      look();
      window.setTimeout(look, CHECK_READ_MS);
    },
  });
  return (
    <>
      <ErrorNotice error={check.error} />
      <Button icon="again" busy={check.isPending} onClick={() => check.mutate()}>
        Check for upgrades
      </Button>
    </>
  );
}
