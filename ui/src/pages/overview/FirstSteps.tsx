// The way from an empty cluster to an answer: one button.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { answer, api, Problem } from "@/api/client";
import { operation as operationQuery } from "@/api/queries";
import { Button } from "@/kit/Button";
import { Progress } from "@/kit/measures";
import { Trouble } from "@/kit/Trouble";
import { type First, MODEL } from "@/pages/overview/first";
import { percent } from "@/text/format";
import { bar, detail, hasEnded, subject, verb } from "@/text/operation";

/** Installs the small model and loads it: the load waits for the files, and brings the engine along. */
async function install(): Promise<string> {
  const params = { params: { path: { name: MODEL } } };
  await answer(api.POST("/api/models/install/{name}", params));
  const asked = await answer(api.POST("/api/models/{name}/load", { ...params, body: { count: 1 } }));
  if (!("id" in asked)) throw new Problem(0, "load", "The frontend has only planned the load.");
  return asked.id;
}

/** `step` is null when the cluster has its model; then only a load that was asked for here is seen to its end. */
export function FirstSteps({ step }: { step: First | null }) {
  const cache = useQueryClient();
  const [load, setLoad] = useState<string | null>(null);
  const installing = useMutation({
    mutationFn: install,
    onSuccess: setLoad,
    onSettled: () => {
      for (const topic of ["operations", "models"]) void cache.invalidateQueries({ queryKey: [topic] });
    },
  });
  const trouble = useLedToPlayground(load);
  if (!step && !trouble) return null;
  return (
    <section className="panel overview-first" aria-label="First steps">
      <h2>{step?.step === "working" ? "Your first model is on its way" : "Nothing runs here yet"}</h2>
      {step && <Step step={step} isBusy={installing.isPending} onTry={() => installing.mutate()} />}
      <Trouble error={installing.error ?? trouble} />
    </section>
  );
}

/** Goes to the playground when the load has ended well; else why it has not. */
function useLedToPlayground(load: string | null): Problem | null {
  const navigate = useNavigate();
  const { data } = useQuery({ ...operationQuery(load ?? ""), enabled: load !== null });
  const state = data?.state;
  useEffect(() => {
    if (state === "completed") void navigate({ to: "/playground", search: { model: MODEL } });
  }, [state, navigate]);
  if (!data || !hasEnded(data.state) || data.state === "completed") return null;
  return new Problem(
    0,
    "load",
    data.error ?? `The load was ${data.state}.`,
    "The page of operations tells more.",
  );
}

function Step({ step, isBusy, onTry }: { step: First; isBusy: boolean; onTry: () => void }) {
  switch (step.step) {
    case "join":
      return (
        <>
          <p>A node is a machine that runs models. Add the first one.</p>
          <div>
            <Link className="button primary" to="/nodes" search={{ join: true }}>
              Add a node
            </Link>
          </div>
        </>
      );
    case "approve":
      return <p>A node waits to be let in: approve it below. Then a model is one click away.</p>;
    case "wait":
      return (
        <>
          <p>No node takes work now.</p>
          <p className="soft">{step.reason}</p>
        </>
      );
    case "try":
      return (
        <>
          <p>
            One click installs a small model (SmolLM2 135M, about 100 MB) with its engine, loads it, and takes
            you to the playground to talk with it. It needs no GPU.
          </p>
          <div className="row">
            <Button kind="primary" icon="play" busy={isBusy} onClick={onTry}>
              Try a small model
            </Button>
            <Link className="button plain" to="/models" search={{ view: "catalog" }}>
              Choose another
            </Link>
          </div>
        </>
      );
    case "working":
      return <Working operation={step.operation} />;
  }
}

function Working({ operation }: { operation: Extract<First, { step: "working" }>["operation"] }) {
  const value = bar(operation);
  const title = `${verb(operation)} ${subject(operation)}`;
  return (
    <>
      <div className="row apart">
        <span>
          {title}
          <span className="soft">: {detail(operation)}</span>
        </span>
        {value != null && <span className="number">{percent(value)}</span>}
      </div>
      <Progress value={value ?? null} label={title} />
      <div>
        <Link className="button plain" to="/playground" search={{ model: MODEL }}>
          Wait in the playground
        </Link>
      </div>
    </>
  );
}
