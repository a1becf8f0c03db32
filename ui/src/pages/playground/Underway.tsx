// What a question waits for: a model that is being fetched or loaded, with its bar.
import { useQuery } from "@tanstack/react-query";
import { answer, api } from "@/api/client";
import { operation, operations } from "@/api/queries";
import { Progress } from "@/kit/measures";
import type { Step } from "@/pages/playground/having";
import { useMay } from "@/shell/me";
import { bytesOf } from "@/text/format";

export function Underway({ step, model }: { step: Step; model: string }) {
  const operates = useMay("operate");
  if (step.kind === "installing") return <Installing id={step.operation} />;
  if (step.kind === "answering") return null;
  return operates ? <LoadSeen model={model} /> : <LoadAsked model={model} />;
}

function Installing({ id }: { id: string }) {
  const { data } = useQuery(operation(id));
  return (
    <Line
      text={data?.message || "Fetching the model"}
      detail={bytesOf(data?.currentBytes, data?.totalBytes)}
      value={data?.totalBytes ? data.progress : null}
    />
  );
}

/** Operators hear of the load on the stream. */
function LoadSeen({ model }: { model: string }) {
  const { data } = useQuery(operations);
  const load = data?.find((one) => one.kind === "model_load" && one.name === model && one.state !== "failed");
  if (!load) return <Line text="Waiting for the first word" detail="" value={null} />;
  const where = load.nodeName ? ` on ${load.nodeName}` : "";
  return (
    <Line
      text={load.message || `Loading ${model}${where}`}
      detail={load.totalBytes ? bytesOf(load.currentBytes, load.totalBytes) : ""}
      value={load.progress || null}
    />
  );
}

/** Everybody else asks: they have no stream. */
function LoadAsked({ model }: { model: string }) {
  const { data } = useQuery({
    queryKey: ["models", "load-status", model],
    // No load is under way: nothing is answered, and that is no error.
    queryFn: async () =>
      (await answer(
        api.GET("/api/models/{name}/load-status", {
          params: { path: { name: model }, query: { quiet: true } },
        }),
      )) ?? null,
    refetchInterval: 1000,
    staleTime: 0,
  });
  if (!data) return <Line text="Waiting for the first word" detail="" value={null} />;
  return (
    <Line
      text={data.message || `Loading ${model}`}
      detail={bytesOf(data.bytes_sent, data.total_bytes)}
      value={data.progress || null}
    />
  );
}

function Line({ text, detail, value }: { text: string; detail: string; value: number | null }) {
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
