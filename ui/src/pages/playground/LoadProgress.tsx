// The progress of the model that a request waits for, while it is downloaded or loaded.
import { useQuery } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import { operation, operations } from "@/api/queries";
import { Progress } from "@/kit/measures";
import type { SetupStep } from "@/pages/playground/modelSetup";
import { useHasScope } from "@/shell/me";
import { bytesOf } from "@/text/format";

export function LoadProgress({ step, model }: { step: SetupStep; model: string }) {
  const operates = useHasScope("operate");
  if (step.kind === "installing") return <InstallLine id={step.operation} />;
  if (step.kind === "answering") return null;
  return operates ? <LoadByOperations model={model} /> : <LoadByModel model={model} />;
}

function InstallLine({ id }: { id: string }) {
  const { data } = useQuery(operation(id));
  return (
    <ProgressLine
      text={data?.message || "Downloading the model"}
      detail={bytesOf(data?.currentBytes, data?.totalBytes)}
      value={data?.totalBytes ? data.progress : null}
    />
  );
}

/** For operators: the load is known from the stream. */
function LoadByOperations({ model }: { model: string }) {
  const { data } = useQuery(operations);
  const load = data?.find((one) => one.kind === "model_load" && one.name === model && one.state !== "failed");
  if (!load) return <ProgressLine text="Waiting for the first token" detail="" value={null} />;
  const where = load.nodeName ? ` on ${load.nodeName}` : "";
  return (
    <ProgressLine
      text={load.message || `Loading ${model}${where}`}
      detail={load.totalBytes ? bytesOf(load.currentBytes, load.totalBytes) : ""}
      value={load.progress || null}
    />
  );
}

/** For other users, who have no stream: the load is polled. */
function LoadByModel({ model }: { model: string }) {
  const { data } = useQuery({
    queryKey: ["models", "load-status", model],
    // Without a load the response is empty, which is no error.
    queryFn: async () =>
      (await unwrapResponse(
        api.GET("/api/models/{name}/load-status", {
          params: { path: { name: model }, query: { quiet: true } },
        }),
      )) ?? null,
    refetchInterval: 1000,
    staleTime: 0,
  });
  if (!data) return <ProgressLine text="Waiting for the first token" detail="" value={null} />;
  return (
    <ProgressLine
      text={data.message || `Loading ${model}`}
      detail={bytesOf(data.bytes_sent, data.total_bytes)}
      value={data.progress || null}
    />
  );
}

function ProgressLine({ text, detail, value }: { text: string; detail: string; value: number | null }) {
  return (
    <div className="playground-underway">
      <div className="row apart small">
        <span role="status">{text}</span>
        <span className="number soft">{detail === "–" ? "" : detail}</span>
      </div>
      <Progress value={value} label={text} />
    </div>
  );
}
