// Installs an entry of the catalog: choose the variant, see where it fits, start, and follow the progress.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { modelConfigs, nodes } from "@/api/queries";
import type { GalleryModelOut, VariantsOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { Tag } from "@/kit/status";
import { entryQuery, installModel, installPlanQuery, loadModel, variantsQuery } from "@/pages/models/calls";
import { FitList } from "@/pages/models/FitList";
import { computeFits, pickFreeName } from "@/pages/models/fit";
import { InstallProgress } from "@/pages/models/InstallProgress";
import { LoadChoice, type LoadChoiceValue } from "@/pages/models/LoadChoice";
import { bytes } from "@/text/format";

export function InstallDialog({ entry, onClose }: { entry: string; onClose: () => void }) {
  const found = useQuery(entryQuery(entry));
  const variants = useQuery({ ...variantsQuery(entry), enabled: Boolean(found.data) });
  if (!found.data || !variants.data)
    return (
      <Dialog wide title={`Install ${entry.slice(entry.indexOf("@") + 1)}`} onClose={onClose}>
        {found.data === null ? (
          <EmptyState title={`${entry} is not in any gallery.`}>
            It may have been renamed; see the catalog.
          </EmptyState>
        ) : (
          <>
            <QueryView query={found}>{() => null}</QueryView>
            {found.data && <QueryView query={variants}>{() => null}</QueryView>}
          </>
        )}
      </Dialog>
    );
  return <InstallForm entry={found.data} variants={variants.data} onClose={onClose} />;
}

interface InstallFormProps {
  entry: GalleryModelOut;
  variants: VariantsOut;
  onClose: () => void;
}

function InstallForm({ entry, variants, onClose }: InstallFormProps) {
  const { data: known } = useQuery(modelConfigs);
  const [typed, setName] = useState<string | null>(null);
  const taken = [...(entry.models ?? []), ...(known ?? []).map((model) => model.name)];
  const name = typed ?? pickFreeName(entry.name, taken);
  const [variant, setVariant] = useState("");
  const [after, setAfter] = useState<LoadChoiceValue>({ loads: true, nodes: null });
  const { data: all } = useQuery(nodes);
  const request = { entry: entry.id, name: useDeferredValue(name.trim()), variant };
  const plan = useQuery({ ...installPlanQuery(request), placeholderData: keepPreviousData });
  const start = useMutation({
    mutationFn: async () => {
      const operation = await installModel({ ...request, name: name.trim() });
      const loading = after.loads ? await loadModel(operation.name, after.nodes) : null;
      return { model: operation.name, install: operation.id, load: loading?.id ?? null };
    },
  });
  if (start.data) return <InstallProgress {...start.data} onClose={onClose} />;
  const chosen = variant || variants.auto_selected;
  const shown = variants.variants.find((one) => one.model === chosen) ?? variants.variants[0];
  const fits = shown ? computeFits(all ?? [], shown, plan.data?.size_bytes ?? null) : [];
  const size = plan.data?.size_bytes;
  return (
    <Dialog
      wide
      title={`Install ${entry.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            busy={start.isPending}
            disabled={!name.trim() || plan.isError}
            onClick={() => start.mutate()}
          >
            Install {name.trim() || entry.name}
          </Button>
        </>
      }
    >
      <p className="soft">
        {entry.description} {entry.license && `License: ${entry.license}.`}{" "}
        {size ? `Downloads about ${bytes(size)}.` : "Nothing to download."}
      </p>
      {variants.variants.length > 1 && <Variants found={variants} chosen={variant} onChoose={setVariant} />}
      <FitList fits={fits} />
      <LoadChoice value={after} nodes={fits} onChange={setAfter} />
      <TextField
        label="Name"
        hint={
          name.trim() && plan.data?.exists
            ? "A model with this name from this entry exists and will be updated."
            : "The model name that clients use."
        }
        error={name.trim() ? null : "Name is required."}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      {(plan.data?.warnings ?? []).map((warning) => (
        <p key={warning} className="models-warning small">
          {warning}
        </p>
      ))}
      {name.trim() && <ErrorNotice error={start.error ?? plan.error} />}
    </Dialog>
  );
}

interface VariantsProps {
  found: VariantsOut;
  chosen: string;
  onChoose: (variant: string) => void;
}

function Variants({ found, chosen, onChoose }: VariantsProps) {
  const option = (value: string, label: string, note: string, fits: boolean) => (
    <label key={value} className="models-option">
      <input type="radio" name="variant" checked={chosen === value} onChange={() => onChoose(value)} />
      <span>
        <strong>{label}</strong> <span className="small soft">{note}</span>
      </span>
      {!fits && <Tag tone="warn">fits no node</Tag>}
    </label>
  );
  return (
    <fieldset className="models-options">
      <legend>Variant</legend>
      {option("", "Automatic", `Currently ${found.auto_selected}.`, true)}
      {found.variants.map((one) =>
        option(
          one.model,
          one.model,
          `${one.memory_bytes ? `About ${bytes(one.memory_bytes)} of memory. ` : ""}${one.reason}`,
          one.fits,
        ),
      )}
    </fieldset>
  );
}
