// Transcribes a file, or a recording of this machine's microphone.
import { type ChangeEvent, useRef, useState } from "react";
import { request } from "@/api/client";
import { Button } from "@/kit/Button";
import { CopyButton } from "@/kit/CopyButton";
import { ErrorNotice } from "@/kit/ErrorNotice";
import type { ModelChoice } from "@/pages/playground/choices";
import { LoadProgress } from "@/pages/playground/LoadProgress";
import { useModelCall } from "@/pages/playground/useModelCall";

async function transcribe(
  model: string,
  recording: Blob,
  name: string,
  signal: AbortSignal,
): Promise<string> {
  const form = new FormData();
  form.append("model", model);
  form.append("file", recording, name);
  const response = await request("/v1/audio/transcriptions", { method: "POST", body: form, signal });
  return ((await response.json()) as { text: string }).text;
}

export function Transcription({ choice }: { choice: ModelChoice }) {
  const call = useModelCall(choice, (file: { blob: Blob; name: string }, signal) =>
    transcribe(choice.name, file.blob, file.name, signal),
  );
  const [trouble, setTrouble] = useState<unknown>(null);
  const recorder = useRecorder((blob) => call.mutate({ blob, name: "recording.webm" }), setTrouble);
  const onFile = (event: ChangeEvent<HTMLInputElement>) => {
    const file = event.target.files?.[0];
    setTrouble(null);
    if (file) call.mutate({ blob: file, name: file.name });
  };
  return (
    <div className="panel stack">
      <label className="field">
        <span>Audio file</span>
        <input type="file" accept="audio/*,video/*" onChange={onFile} />
      </label>
      <div className="row">
        <Button icon={recorder.isOn ? "stop" : "play"} onClick={recorder.toggle} disabled={call.isPending}>
          {recorder.isOn ? "Stop and transcribe" : "Record"}
        </Button>
      </div>
      {call.step && <LoadProgress step={call.step} model={choice.name} />}
      <ErrorNotice error={call.error ?? trouble} />
      {call.data !== undefined && <CopyButton text={call.data} label="the text" />}
    </div>
  );
}

function useRecorder(onDone: (recording: Blob) => void, onTrouble: (error: unknown) => void) {
  const recorder = useRef<MediaRecorder | null>(null);
  const [isOn, setOn] = useState(false);
  const start = async () => {
    const source = await navigator.mediaDevices.getUserMedia({ audio: true });
    const made = new MediaRecorder(source);
    made.addEventListener("dataavailable", (event) => onDone(event.data));
    made.addEventListener("stop", () => {
      for (const track of source.getTracks()) track.stop();
      setOn(false);
    });
    made.start();
    recorder.current = made;
    setOn(true);
  };
  const toggle = () => {
    onTrouble(null);
    if (isOn) recorder.current?.stop();
    else start().catch(() => onTrouble(new Error("The microphone cannot be used. Choose a file instead.")));
  };
  return { isOn, toggle };
}
