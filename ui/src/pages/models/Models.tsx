// What this cluster can run, and what it could.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { modelConfigs } from "@/api/queries";
import { Button } from "@/kit/Button";
import { Search, Segments } from "@/kit/fields";
import { PageHead } from "@/kit/Panel";
import { Catalog } from "@/pages/models/Catalog";
import { FromAddress } from "@/pages/models/FromAddress";
import { InstallEntry } from "@/pages/models/InstallEntry";
import { Installed } from "@/pages/models/Installed";
import "@/pages/models/models.css";

export default function Models() {
  const search = useSearch({ from: "/models" });
  const navigate = useNavigate({ from: "/models" });
  const installed = useQuery(modelConfigs);
  const [adds, setAdds] = useState(false);
  const view = search.view ?? "installed";
  const go = (change: Partial<typeof search>, replace: boolean) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace });
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
            onChange={(to) => go({ view: to, q: undefined, tag: undefined }, false)}
          />
          <Search
            label={view === "installed" ? "Search the installed models" : "Search the catalog"}
            value={search.q ?? ""}
            onChange={(q) => go({ q: q || undefined }, true)}
          />
        </div>
        {view === "installed" ? (
          <Installed words={search.q ?? ""} onCatalog={() => go({ view: "catalog", q: undefined }, false)} />
        ) : (
          <Catalog
            words={search.q ?? ""}
            tag={search.tag ?? ""}
            onTag={(tag) => go({ tag: tag || undefined }, true)}
            onOpen={(entry) => go({ entry }, false)}
          />
        )}
      </div>
      {search.entry && (
        <InstallEntry
          key={search.entry}
          entry={search.entry}
          onClose={() => go({ entry: undefined }, true)}
        />
      )}
      {adds && <FromAddress onClose={() => setAdds(false)} />}
    </>
  );
}
