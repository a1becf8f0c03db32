// The way from an empty cluster to an answer: one button.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, Problem, unwrapResponse } from "@/api/client";
import { operation as operationQuery } from "@/api/queries";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Progress } from "@/kit/measures";
import { FIRST_MODEL, type FirstStep } from "@/pages/overview/firstStep";
import { percent } from "@/text/format";
import { computeProgress, describeDetail, describeVerb, subject } from "@/text/operation";
import { isSettled } from "@/text/operationStates";

/** Installs the small model and loads it: the load waits for the files, and brings the engine along. */
async function install(): Promise<string> {
  const params = { params: { path: { name: FIRST_MODEL } } };
  await unwrapResponse(api.POST("/api/models/install/{name}", params));
  const operation = await unwrapResponse(
    api.POST("/api/models/{name}/load", { ...params, body: { count: 1 } }),
  );
  if (!("id" in operation))
    throw new Problem(0, "load", "The server returned a plan instead of starting the load.");
  return operation.id;
}

/** `step` is null when the cluster has its model; then only a load that was started here is followed to its end. */
export function FirstSteps({ step }: { step: FirstStep | null }) {
  const cache = useQueryClient();
  const [load, setLoad] = useState<string | null>(null);
  const installing = useMutation({
    mutationFn: install,
    onSuccess: setLoad,
    onSettled: () => {
      for (const topic of ["operations", "models"]) void cache.invalidateQueries({ queryKey: [topic] });
    },
  });
  const trouble = useOpenPlaygroundWhenLoaded(load);
  if (!step && !trouble) return null;
  return (
    <section className="panel overview-first" aria-label="First steps">
      <h2>{step?.step === "working" ? "Your first model is loading" : "No model is running yet"}</h2>
      {step && <Step step={step} isBusy={installing.isPending} onTry={() => installing.mutate()} />}
      <ErrorNotice error={installing.error ?? trouble} />
    </section>
  );
}

/** Opens the playground when the load has completed; returns its error if it failed. */
function useOpenPlaygroundWhenLoaded(load: string | null): Problem | null {
  const navigate = useNavigate();
  const { data } = useQuery({ ...operationQuery(load ?? ""), enabled: load !== null });
  const state = data?.state;
  useEffect(() => {
    if (state === "completed") void navigate({ to: "/playground", search: { model: FIRST_MODEL } });
  }, [state, navigate]);
  if (!data || !isSettled(data.state) || data.state === "completed") return null;
  return new Problem(
    0,
    "load",
    data.error ?? `The load was ${data.state}.`,
    "See the Operations page for details.",
  );
}

function Step({ step, isBusy, onTry }: { step: FirstStep; isBusy: boolean; onTry: () => void }) {
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
      return <p>A node is waiting for approval: approve it below, then install a model with one click.</p>;
    case "wait":
      return (
        <>
          <p>No node accepts work right now.</p>
          <p className="soft">{step.reason}</p>
        </>
      );
    case "try":
      return (
        <>
          <p>
            One click installs a small model (SmolLM2 135M, about 100 MB) with its engine, loads it, and takes
            you to the playground to chat with it. It needs no GPU.
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
      return <LoadingStep operation={step.operation} />;
  }
}

function LoadingStep({ operation }: { operation: Extract<FirstStep, { step: "working" }>["operation"] }) {
  const value = computeProgress(operation);
  const title = `${describeVerb(operation)} ${subject(operation)}`;
  return (
    <>
      <div className="row apart">
        <span>
          {title}
          <span className="soft">: {describeDetail(operation)}</span>
        </span>
        {value != null && <span className="number">{percent(value)}</span>}
      </div>
      <Progress value={value ?? null} label={title} />
      <div>
        <Link className="button plain" to="/playground" search={{ model: FIRST_MODEL }}>
          Open the playground
        </Link>
      </div>
    </>
  );
}
