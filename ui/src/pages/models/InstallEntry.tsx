// Installing an entry of the catalog: which variant, where it would fit, what is done; then what comes of it.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { modelConfigs, nodes } from "@/api/queries";
import type { GalleryModelOut, VariantsOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { TextField } from "@/kit/fields";
import { Empty } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { Trouble } from "@/kit/Trouble";
import { After, type Afterwards } from "@/pages/models/After";
import { entryOf, install, installPlanOf, load, variantsOf } from "@/pages/models/calls";
import { Fits } from "@/pages/models/Fits";
import { fitsOf, freeName } from "@/pages/models/fit";
import { Installing } from "@/pages/models/Installing";
import { bytes } from "@/text/format";

export function InstallEntry({ entry, onClose }: { entry: string; onClose: () => void }) {
  const found = useQuery(entryOf(entry));
  const variants = useQuery({ ...variantsOf(entry), enabled: Boolean(found.data) });
  if (!found.data || !variants.data)
    return (
      <Dialog wide title={`Install ${entry.slice(entry.indexOf("@") + 1)}`} onClose={onClose}>
        {found.data === null ? (
          <Empty title={`No gallery has ${entry}.`}>It may have been renamed. Look in the catalog.</Empty>
        ) : (
          <>
            <Answered query={found}>{() => null}</Answered>
            {found.data && <Answered query={variants}>{() => null}</Answered>}
          </>
        )}
      </Dialog>
    );
  return <Choosing entry={found.data} variants={variants.data} onClose={onClose} />;
}

interface ChoosingProps {
  entry: GalleryModelOut;
  variants: VariantsOut;
  onClose: () => void;
}

function Choosing({ entry, variants, onClose }: ChoosingProps) {
  const { data: known } = useQuery(modelConfigs);
  const [typed, setName] = useState<string | null>(null);
  const taken = [...(entry.models ?? []), ...(known ?? []).map((model) => model.name)];
  const name = typed ?? freeName(entry.name, taken);
  const [variant, setVariant] = useState("");
  const [after, setAfter] = useState<Afterwards>({ loads: true, nodes: null });
  const { data: all } = useQuery(nodes);
  const wish = { entry: entry.id, name: useDeferredValue(name.trim()), variant };
  const plan = useQuery({ ...installPlanOf(wish), placeholderData: keepPreviousData });
  const start = useMutation({
    mutationFn: async () => {
      const asked = await install({ ...wish, name: name.trim() });
      const loading = after.loads ? await load(asked.name, after.nodes) : null;
      return { model: asked.name, install: asked.id, load: loading?.id ?? null };
    },
  });
  if (start.data) return <Installing {...start.data} onClose={onClose} />;
  const chosen = variant || variants.auto_selected;
  const shown = variants.variants.find((one) => one.model === chosen) ?? variants.variants[0];
  const fits = shown ? fitsOf(all ?? [], shown, plan.data?.size_bytes ?? null) : [];
  const size = plan.data?.size_bytes;
  return (
    <Dialog
      wide
      title={`Install ${entry.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Not now</Button>
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
        {size ? `About ${bytes(size)} are fetched.` : "Nothing has to be fetched."}
      </p>
      {variants.variants.length > 1 && <Variants found={variants} chosen={variant} onChoose={setVariant} />}
      <Fits fits={fits} />
      <After value={after} nodes={fits} onChange={setAfter} />
      <TextField
        label="Name"
        hint={
          name.trim() && plan.data?.exists
            ? "There is a model of this name, made of this entry: it gets what is new."
            : "What clients ask for."
        }
        error={name.trim() ? null : "It needs a name."}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      {(plan.data?.warnings ?? []).map((warning) => (
        <p key={warning} className="models-warning small">
          {warning}
        </p>
      ))}
      {name.trim() && <Trouble error={start.error ?? plan.error} />}
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
      {!fits && <Tag tone="warn">fits nowhere</Tag>}
    </label>
  );
  return (
    <fieldset className="models-options">
      <legend>Variant</legend>
      {option("", "The one that suits the nodes", `Now that is ${found.auto_selected}.`, true)}
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
