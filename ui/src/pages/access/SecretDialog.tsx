// The secret, this once, and a call that works with it.
import { useQuery } from "@tanstack/react-query";
import { answer, api } from "@/api/client";
import type { KeyMade } from "@/api/schema";
import { Copy } from "@/kit/Copy";
import { ShownOnce } from "@/kit/ShownOnce";
import { curlOf, exampleModel } from "@/pages/access/listing";

export function SecretDialog({ made, onClose }: { made: KeyMade; onClose: () => void }) {
  const { data } = useQuery({
    queryKey: ["models", "capabilities"],
    queryFn: async () => (await answer(api.GET("/api/models/capabilities"))).data,
  });
  const model = exampleModel(made.models, data ?? []);
  return (
    <ShownOnce
      title={`The secret of ${made.name}`}
      advice={`Copy it now; whoever has it is ${made.name}.`}
      onClose={onClose}
    >
      <Copy text={made.key} label={`the secret of ${made.name}`} />
      <h3>Try it</h3>
      <Copy text={curlOf(window.location.origin, made.key, model)} label="the command" />
      {model === "MODEL" && (
        <p className="small soft">
          Put the name of a model in the place of MODEL: none is there yet that it may ask.
        </p>
      )}
    </ShownOnce>
  );
}
