// Computes embeddings of texts, and shows how similar they are.
import { type FormEvent, useState } from "react";
import { request } from "@/api/client";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextArea } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import type { ModelChoice } from "@/pages/playground/choices";
import { LoadProgress } from "@/pages/playground/LoadProgress";
import { useModelCall } from "@/pages/playground/useModelCall";
import { computeCosineSimilarity, parseTexts } from "@/pages/playground/vectors";

const EXAMPLE = "A horse stands in the yard.\nThe mare waits by the fence.\nThe database is restarted.";

interface EmbeddingResult {
  texts: string[];
  vectors: number[][];
}

async function embed(model: string, texts: string[], signal: AbortSignal): Promise<EmbeddingResult> {
  const response = await request("/v1/embeddings", {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, input: texts }),
  });
  const { data } = (await response.json()) as { data: { embedding: number[] }[] };
  return { texts, vectors: data.map((one) => one.embedding) };
}

export function Embeddings({ choice }: { choice: ModelChoice }) {
  const [lines, setLines] = useState(EXAMPLE);
  const call = useModelCall(choice, (texts: string[], signal) => embed(choice.name, texts, signal));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    call.mutate(parseTexts(lines));
  };
  return (
    <div className="stack">
      <form className="panel stack" onSubmit={submit}>
        <TextArea
          label="Texts, one per line"
          rows={5}
          value={lines}
          onChange={(event) => setLines(event.target.value)}
        />
        <div className="row">
          <Button
            kind="primary"
            type="submit"
            busy={call.isPending}
            disabled={parseTexts(lines).length === 0}
          >
            Embed
          </Button>
        </div>
        {call.step && <LoadProgress step={call.step} model={choice.name} />}
        <ErrorNotice error={call.error} />
      </form>
      {call.data && <SimilarityTable {...call.data} />}
    </div>
  );
}

function SimilarityTable({ texts, vectors }: EmbeddingResult) {
  return (
    <Panel title="Similarity" note={`${vectors[0]?.length ?? 0} dimensions. 1: identical, 0: unrelated.`}>
      <div className="table-box">
        <table>
          <thead>
            <tr>
              <th scope="col">Text</th>
              {texts.map((text, place) => (
                <th key={text} scope="col" className="right" title={text}>
                  {place + 1}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {texts.map((text, row) => (
              <tr key={text}>
                <th scope="row" className="cut">
                  {row + 1}. {text}
                </th>
                {vectors.map((vector, column) => {
                  const alike = computeCosineSimilarity(vectors[row] ?? [], vector);
                  return (
                    <td
                      key={texts[column]}
                      className="right number playground-alike"
                      style={{ "--alike": `${Math.max(0, alike) * 60}%` } as React.CSSProperties}
                    >
                      {alike.toFixed(2)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
