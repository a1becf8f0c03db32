// Shows a new secret once, with an example call that uses it.
import { useQuery } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { CreatedKeyOut } from "@/api/schema";
import { CopyButton } from "@/kit/CopyButton";
import { OneTimeSecretDialog } from "@/kit/OneTimeSecretDialog";
import { exampleModel, makeCurlCommand } from "@/pages/access/accessLists";

export function SecretDialog({ made, onClose }: { made: CreatedKeyOut; onClose: () => void }) {
  const { data } = useQuery({
    queryKey: ["models", "capabilities"],
    queryFn: async () => (await unwrapResponse(api.GET("/api/models/capabilities"))).data,
  });
  const model = exampleModel(made.models, data ?? []);
  return (
    <OneTimeSecretDialog
      title={`Secret of ${made.name}`}
      advice={`Copy it now. Anyone with this secret can act as ${made.name}.`}
      onClose={onClose}
    >
      <CopyButton text={made.key} label={`the secret of ${made.name}`} />
      <h3>Example</h3>
      <CopyButton text={makeCurlCommand(window.location.origin, made.key, model)} label="the command" />
      {model === "MODEL" && (
        <p className="small soft">Replace MODEL with a model name: no model is available to this key yet.</p>
      )}
    </OneTimeSecretDialog>
  );
}
