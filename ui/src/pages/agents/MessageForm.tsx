// The form for the next message of a thread. A message that could not be sent stays in the form.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type KeyboardEvent, useRef, useState } from "react";
import type { AgentConfigOut, AgentMessageOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { resumeAgent, sendMessage } from "@/pages/agents/calls";
import { makeMessageKey } from "@/pages/agents/messageKey";
import type { Turn } from "@/pages/agents/turns";
import { canEdit, keyOf } from "@/pages/agents/words";
import { cancelRun, runQuery } from "@/pages/runs/queries";
import { useHasScope } from "@/shell/me";

const MESSAGE_MAX = 200_000;

interface MessageFormProps {
  agent: AgentConfigOut;
  thread: string | undefined;
  /** The turn that runs, if one does. */
  running: Turn | undefined;
  /** What was written before, and not sent. */
  draft: string;
  onDraft: (text: string) => void;
  onSent: (sent: AgentMessageOut, text: string) => void;
}

export function MessageForm({ agent, thread, running, draft, onDraft, onSent }: MessageFormProps) {
  const [text, setText] = useState(draft);
  const attempt = useRef({ text: "", key: "" });
  const sending = useMutation({
    mutationFn: (message: string) => {
      // The same message again, after no answer came, is stored once.
      if (attempt.current.text !== message) attempt.current = { text: message, key: makeMessageKey() };
      return sendMessage(agent.name, { text: message, thread, idempotencyKey: attempt.current.key });
    },
    onSuccess: (sent, message) => {
      attempt.current = { text: "", key: "" };
      setText((now) => (now.trim() === message ? "" : now));
      onDraft("");
      onSent(sent, message);
    },
  });
  const send = () => {
    if (text.trim() && !sending.isPending) sending.mutate(text.trim());
  };
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    send();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send();
    }
  };
  if (agent.status === "paused") return <PausedNotice agent={agent} />;
  const cancels = agent.config.cancel_previous_on_new_message !== false;
  return (
    <form className="chat-form" onSubmit={onSubmit}>
      <ErrorNotice error={sending.error} />
      {running && (
        <p className="small soft">
          {cancels
            ? "A new message cancels the turn that runs."
            : "A new message waits until the turn that runs has ended."}
        </p>
      )}
      <div className="chat-write">
        <textarea
          aria-label={`Message to ${agent.name}`}
          rows={2}
          maxLength={MESSAGE_MAX}
          value={text}
          placeholder="Send a message. Enter sends, Shift+Enter adds a line."
          // biome-ignore lint/a11y/noAutofocus: writing is what this page is for
          autoFocus
          onChange={(event) => {
            setText(event.target.value);
            onDraft(event.target.value);
          }}
          onKeyDown={onKeyDown}
        />
        {running && <StopButton turn={running} />}
        <Button kind="primary" icon="send" type="submit" busy={sending.isPending} disabled={!text.trim()}>
          Send
        </Button>
      </div>
    </form>
  );
}

/** Cancels a turn. It is shown as cancelled as soon as the stream says so. */
export function StopButton({ turn, label = "Stop" }: { turn: Turn; label?: string }) {
  const isAdmin = useHasScope("admin");
  const cache = useQueryClient();
  const stop = useMutation({
    mutationFn: () => cancelRun(turn.runId, isAdmin),
    onSuccess: (run) => cache.setQueryData(runQuery(turn.runId, isAdmin).queryKey, run),
    // A turn that has ended meanwhile cannot be cancelled any more, and its end is shown.
    onError: () => void cache.invalidateQueries({ queryKey: ["runs", "one", turn.runId] }),
  });
  return (
    <Button icon="stop" small={label !== "Stop"} busy={stop.isPending} onClick={() => stop.mutate()}>
      {label}
    </Button>
  );
}

function PausedNotice({ agent }: { agent: AgentConfigOut }) {
  const isAdmin = useHasScope("admin");
  const cache = useQueryClient();
  const resume = useMutation({
    mutationFn: () => resumeAgent(keyOf(agent)),
    onSettled: () => void cache.invalidateQueries({ queryKey: ["agents"] }),
  });
  return (
    <div className="chat-form">
      <div className="row apart">
        <span>{agent.name} is paused and takes no messages.</span>
        {canEdit(agent, isAdmin) && (
          <Button icon="play" busy={resume.isPending} onClick={() => resume.mutate()}>
            Resume
          </Button>
        )}
      </div>
      <ErrorNotice error={resume.error} />
    </div>
  );
}
