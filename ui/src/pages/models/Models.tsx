// The models page: the models of this cluster, and the catalog of models that can be installed.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { modelConfigs } from "@/api/queries";
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { PageHeader } from "@/kit/Panel";
import { FineTunings } from "@/pages/fine-tuning/FineTunings";
import { Catalog } from "@/pages/models/Catalog";
import { ImportDialog } from "@/pages/models/ImportDialog";
import { InstallDialog } from "@/pages/models/InstallDialog";
import { InstalledModels } from "@/pages/models/InstalledModels";
import { Quantizations } from "@/pages/quantization/Quantizations";
import { usePageSearch } from "@/shell/usePageSearch";
import "@/pages/models/models.css";

export default function Models() {
  const [search, setSearch] = usePageSearch("/models");
  const installed = useQuery(modelConfigs);
  const [adds, setAdds] = useState(false);
  const view = search.view ?? "installed";
  return (
    <>
      <PageHeader title="Models" note="Models that this cluster serves. A model loads on its first request.">
        <Button icon="plus" onClick={() => setAdds(true)}>
          Import from URL
        </Button>
      </PageHeader>
      <div className="stack">
        <div className="row">
          <SegmentedControl
            label="View"
            value={view}
            options={[
              { value: "installed", label: "Installed", count: installed.data?.length },
              { value: "catalog", label: "Catalog" },
              { value: "quantizations", label: "Quantisations" },
              { value: "fine-tunings", label: "Fine-tunings" },
            ]}
            onChange={(to) => setSearch({ view: to, q: undefined, tag: undefined })}
          />
          {(view === "installed" || view === "catalog") && (
            <SearchField
              label={view === "installed" ? "Search installed models" : "Search the catalog"}
              value={search.q ?? ""}
              onChange={(q) => setSearch({ q: q || undefined }, true)}
            />
          )}
        </div>
        {view === "quantizations" && <Quantizations />}
        {view === "fine-tunings" && <FineTunings />}
        {view === "installed" && (
          <InstalledModels
            words={search.q ?? ""}
            onCatalog={() => setSearch({ view: "catalog", q: undefined })}
          />
        )}
        {view === "catalog" && (
          <Catalog
            words={search.q ?? ""}
            tag={search.tag ?? ""}
            onTag={(tag) => setSearch({ tag: tag || undefined }, true)}
            onOpen={(entry) => setSearch({ entry })}
          />
        )}
      </div>
      {search.entry && (
        <InstallDialog
          key={search.entry}
          entry={search.entry}
          onClose={() => setSearch({ entry: undefined }, true)}
        />
      )}
      {adds && <ImportDialog onClose={() => setAdds(false)} />}
    </>
  );
}
