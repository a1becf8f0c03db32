// Texts as vectors, and how alike they are.
import { type FormEvent, useState } from "react";
import { request } from "@/api/client";
import { Button } from "@/kit/Button";
import { TextArea } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { Trouble } from "@/kit/Trouble";
import type { Choice } from "@/pages/playground/choices";
import { Underway } from "@/pages/playground/Underway";
import { useHad } from "@/pages/playground/useHad";
import { cosine, textsOf } from "@/pages/playground/vectors";

const EXAMPLE = "A horse stands in the yard.\nThe mare waits by the fence.\nThe database is restarted.";

interface Embedded {
  texts: string[];
  vectors: number[][];
}

async function embed(model: string, texts: string[], signal: AbortSignal): Promise<Embedded> {
  const response = await request("/v1/embeddings", {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, input: texts }),
  });
  const { data } = (await response.json()) as { data: { embedding: number[] }[] };
  return { texts, vectors: data.map((one) => one.embedding) };
}

export function Embeddings({ choice }: { choice: Choice }) {
  const [lines, setLines] = useState(EXAMPLE);
  const had = useHad(choice, (texts: string[], signal) => embed(choice.name, texts, signal));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    had.mutate(textsOf(lines));
  };
  return (
    <div className="stack">
      <form className="panel stack" onSubmit={submit}>
        <TextArea
          label="Texts, one a line"
          rows={5}
          value={lines}
          onChange={(event) => setLines(event.target.value)}
        />
        <div className="row">
          <Button kind="primary" type="submit" busy={had.isPending} disabled={textsOf(lines).length === 0}>
            Make vectors
          </Button>
        </div>
        {had.step && <Underway step={had.step} model={choice.name} />}
        <Trouble error={had.error} />
      </form>
      {had.data && <Alike {...had.data} />}
    </div>
  );
}

function Alike({ texts, vectors }: Embedded) {
  return (
    <Panel
      title="How alike they are"
      note={`Vectors of ${vectors[0]?.length ?? 0} numbers. 1 is the same, 0 has nothing to do with it.`}
    >
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
                  const alike = cosine(vectors[row] ?? [], vector);
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
