// A text, spoken.
import { type FormEvent, useEffect, useState } from "react";
import { request } from "@/api/client";
import { Button } from "@/kit/Button";
import { TextArea } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import type { Choice } from "@/pages/playground/choices";
import { Underway } from "@/pages/playground/Underway";
import { useHad } from "@/pages/playground/useHad";

async function speak(model: string, input: string, signal: AbortSignal): Promise<string> {
  const response = await request("/v1/audio/speech", {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, input, voice: "default", response_format: "wav" }),
  });
  return URL.createObjectURL(await response.blob());
}

export function Speech({ choice }: { choice: Choice }) {
  const [text, setText] = useState("The horses are in the corral, and the gate is closed.");
  const had = useHad(choice, (input: string, signal) => speak(choice.name, input, signal));
  const address = had.data;
  useEffect(() => () => URL.revokeObjectURL(address ?? ""), [address]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    had.mutate(text.trim());
  };
  return (
    <form className="panel stack" onSubmit={submit}>
      <TextArea label="Text" rows={4} value={text} onChange={(event) => setText(event.target.value)} />
      <div className="row">
        <Button kind="primary" icon="play" type="submit" busy={had.isPending} disabled={!text.trim()}>
          Speak
        </Button>
        {address && (
          <a className="button plain" href={address} download="speech.wav">
            Save the recording
          </a>
        )}
      </div>
      {had.step && <Underway step={had.step} model={choice.name} />}
      <Trouble error={had.error} />
      {address && (
        // biome-ignore lint/a11y/useMediaCaption: the text that is spoken stands above
        <audio controls autoPlay src={address} aria-label="The spoken text" />
      )}
    </form>
  );
}
