// The secret, this once, and a call that works with it.
import { useQuery } from "@tanstack/react-query";
import { answer, api } from "@/api/client";
import type { KeyMade } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Copy } from "@/kit/Copy";
import { Dialog } from "@/kit/Dialog";
import { curlOf, firstAllowed } from "@/pages/access/listing";

export function SecretDialog({ made, onClose }: { made: KeyMade; onClose: () => void }) {
  const { data } = useQuery({
    queryKey: ["models", "capabilities"],
    queryFn: () => answer(api.GET("/api/models/capabilities")),
  });
  const names = (data?.data ?? []).map((model) => model.id);
  const model = firstAllowed(made.models, names);
  return (
    <Dialog
      title={`The secret of ${made.name}`}
      onClose={onClose}
      wide
      actions={
        <Button kind="primary" onClick={onClose}>
          I have it
        </Button>
      }
    >
      <p>
        <strong>It is shown here only.</strong> Copy it now; whoever has it is {made.name}.
      </p>
      <Copy text={made.key} label={`the secret of ${made.name}`} />
      <h3>Try it</h3>
      <Copy text={curlOf(window.location.origin, made.key, model)} label="the command" />
      {model === "MODEL" && (
        <p className="small soft">
          Put the name of a model in the place of MODEL: none is there yet that it may ask.
        </p>
      )}
    </Dialog>
  );
}
