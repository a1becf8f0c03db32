// Starts a quantisation: the type of the weights, with its expected size and where it would fit, and the name of the result.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Select, TextField } from "@/kit/fields";
import { QueryView } from "@/kit/QueryView";
import { useToast } from "@/kit/toasts";
import { quantizationPlanQuery, startQuantization } from "@/pages/quantization/queries";
import { DEFAULT_TYPE, describeFit, describeType } from "@/pages/quantization/words";
import { bytes } from "@/text/format";
import "@/pages/quantization/quantization.css";

export function QuantizeDialog({ model, onClose }: { model: string; onClose: () => void }) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const plan = useQuery(quantizationPlanQuery(model));
  const [kind, setKind] = useState(DEFAULT_TYPE);
  const [name, setName] = useState<string | null>(null);
  const [base, setBase] = useState("");
  const [matrix, setMatrix] = useState("");
  const chosenName = name ?? `${model}-${kind}`;
  const submission = useMutation({
    mutationFn: () =>
      startQuantization({
        model,
        quantization_type: kind,
        name: chosenName.trim(),
        backend: "",
        base: base.trim(),
        imatrix: matrix.trim(),
      }),
    onSuccess: async () => {
      toast(`Quantising ${model} to ${kind}.`);
      void cache.invalidateQueries({ queryKey: ["runs"] });
      onClose();
      await navigate({ to: "/models", search: { view: "quantizations" } });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    submission.mutate();
  };
  return (
    <Dialog title={`Make ${model} smaller`} onClose={onClose}>
      <QueryView query={plan}>
        {(shown) => {
          const chosen = shown.types.find((one) => one.quantization_type === kind);
          return (
            <form className="stack" onSubmit={submit}>
              <Select
                label="Type of the weights"
                hint={chosen && describeFit(chosen)}
                value={kind}
                onChange={(event) => setKind(event.target.value)}
              >
                {shown.types.map((one) => (
                  <option key={one.quantization_type} value={one.quantization_type}>
                    {describeType(one)}
                  </option>
                ))}
              </Select>
              <TextField
                label="Name of the new model"
                hint="Empty: the file is kept, and no model is made of it."
                value={chosenName}
                onChange={(event) => setName(event.target.value)}
              />
              <details>
                <summary>Adapters and importance matrices</summary>
                <div className="stack">
                  <TextField
                    label="Base model"
                    hint="Only for a LoRA adapter: the GGUF model that it changes."
                    value={base}
                    onChange={(event) => setBase(event.target.value)}
                  />
                  <TextField
                    label="Importance matrix"
                    hint="A file of the model that says which weights matter most. Empty: none."
                    value={matrix}
                    onChange={(event) => setMatrix(event.target.value)}
                  />
                </div>
              </details>
              <p className="small soft">
                {shown.quantization_type && `Now ${shown.quantization_type}, ${bytes(shown.size_bytes)}. `}
                {shown.is_requantized &&
                  "Its weights are quantised already, so they will have lost precision twice. "}
                {shown.can_run_on.length === 0 && "No node has room for it now."}
              </p>
              <ErrorNotice error={submission.error} />
              <div className="row quantization-buttons">
                <Button onClick={onClose}>Cancel</Button>
                <Button kind="primary" type="submit" busy={submission.isPending}>
                  Quantise
                </Button>
              </div>
            </form>
          );
        }}
      </QueryView>
    </Dialog>
  );
}
