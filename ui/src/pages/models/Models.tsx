// What this cluster can run, and what it could.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { modelConfigs } from "@/api/queries";
import { Button } from "@/kit/Button";
import { Search, Segments } from "@/kit/fields";
import { PageHead } from "@/kit/Panel";
import { Catalog } from "@/pages/models/Catalog";
import { FromAddress } from "@/pages/models/FromAddress";
import { InstallEntry } from "@/pages/models/InstallEntry";
import { Installed } from "@/pages/models/Installed";
import { useAddress } from "@/shell/useAddress";
import "@/pages/models/models.css";

export default function Models() {
  const [search, say] = useAddress("/models");
  const installed = useQuery(modelConfigs);
  const [adds, setAdds] = useState(false);
  const view = search.view ?? "installed";
  return (
    <>
      <PageHead
        title="Models"
        note="What this cluster answers with. A model is loaded when somebody asks for it."
      >
        <Button icon="plus" onClick={() => setAdds(true)}>
          From an address
        </Button>
      </PageHead>
      <div className="stack">
        <div className="row">
          <Segments
            label="Which models"
            value={view}
            options={[
              { value: "installed", label: "Installed", count: installed.data?.length },
              { value: "catalog", label: "Catalog" },
            ]}
            onChange={(to) => say({ view: to, q: undefined, tag: undefined })}
          />
          <Search
            label={view === "installed" ? "Search the installed models" : "Search the catalog"}
            value={search.q ?? ""}
            onChange={(q) => say({ q: q || undefined }, true)}
          />
        </div>
        {view === "installed" ? (
          <Installed words={search.q ?? ""} onCatalog={() => say({ view: "catalog", q: undefined })} />
        ) : (
          <Catalog
            words={search.q ?? ""}
            tag={search.tag ?? ""}
            onTag={(tag) => say({ tag: tag || undefined }, true)}
            onOpen={(entry) => say({ entry })}
          />
        )}
      </div>
      {search.entry && (
        <InstallEntry
          key={search.entry}
          entry={search.entry}
          onClose={() => say({ entry: undefined }, true)}
        />
      )}
      {adds && <FromAddress onClose={() => setAdds(false)} />}
    </>
  );
}
