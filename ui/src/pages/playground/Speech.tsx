// Synthesises speech from a text.
import { type FormEvent, useEffect, useState } from "react";
import { request } from "@/api/client";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextArea } from "@/kit/fields";
import type { ModelChoice } from "@/pages/playground/choices";
import { LoadProgress } from "@/pages/playground/LoadProgress";
import { useModelCall } from "@/pages/playground/useModelCall";

async function speak(model: string, input: string, signal: AbortSignal): Promise<string> {
  const response = await request("/v1/audio/speech", {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, input, voice: "default", response_format: "wav" }),
  });
  return URL.createObjectURL(await response.blob());
}

export function Speech({ choice }: { choice: ModelChoice }) {
  const [text, setText] = useState("The horses are in the corral, and the gate is closed.");
  const call = useModelCall(choice, (input: string, signal) => speak(choice.name, input, signal));
  const address = call.data;
  useEffect(() => () => URL.revokeObjectURL(address ?? ""), [address]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    call.mutate(text.trim());
  };
  return (
    <form className="panel stack" onSubmit={submit}>
      <TextArea label="Text" rows={4} value={text} onChange={(event) => setText(event.target.value)} />
      <div className="row">
        <Button kind="primary" icon="play" type="submit" busy={call.isPending} disabled={!text.trim()}>
          Speak
        </Button>
        {address && (
          <a className="button plain" href={address} download="speech.wav">
            Save recording
          </a>
        )}
      </div>
      {call.step && <LoadProgress step={call.step} model={choice.name} />}
      <ErrorNotice error={call.error} />
      {address && (
        // biome-ignore lint/a11y/useMediaCaption: the text that is spoken stands above
        <audio controls autoPlay src={address} aria-label="Spoken text" />
      )}
    </form>
  );
}
