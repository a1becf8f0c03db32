// The playground: chat, embeddings, speech and transcription with the cluster's models.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";
import { api, unwrapResponse } from "@/api/client";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { SegmentedControl } from "@/kit/fields";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { LoadingLines } from "@/kit/QueryView";
import { ChatView } from "@/pages/playground/ChatView";
import { DEFAULT_PARAMETERS } from "@/pages/playground/chat";
import { keepChoice, listChoices, type ModelChoice, type PlaygroundMode } from "@/pages/playground/choices";
import { makeMessages } from "@/pages/playground/conversation";
import { Embeddings } from "@/pages/playground/Embeddings";
import { ModelPicker } from "@/pages/playground/ModelPicker";
import { ParameterPanel } from "@/pages/playground/ParameterPanel";
import { Speech } from "@/pages/playground/Speech";
import { Transcription } from "@/pages/playground/Transcription";
import { useConversation } from "@/pages/playground/useConversation";
import { useHasScope } from "@/shell/me";
import "@/pages/playground/playground.css";

const MODES: { value: PlaygroundMode; label: string }[] = [
  { value: "chat", label: "Chat" },
  { value: "embeddings", label: "Embeddings" },
  { value: "speech", label: "Speech" },
  { value: "transcription", label: "Transcription" },
];

export default function Playground() {
  const { model: named, mode = "chat" } = useSearch({ from: "/playground" });
  const navigate = useNavigate({ from: "/playground" });
  const { choices, isPending, error } = useChoices(mode);
  const chosen = useKeptChoice(choices, named, mode, isPending);
  return (
    <>
      <PageHeader title="Playground">
        <SegmentedControl
          label="Mode"
          value={mode}
          options={MODES}
          onChange={(next) =>
            void navigate({ search: { mode: next === "chat" ? undefined : next, model: undefined } })
          }
        />
      </PageHeader>
      <ErrorNotice error={error} />
      {isPending ? (
        <LoadingLines />
      ) : (
        <>
          <div className="row playground-head">
            <ModelPicker
              choices={choices}
              chosen={chosen}
              named={named}
              onChoose={(model) =>
                void navigate({ to: "/playground", search: (before) => ({ ...before, model }) })
              }
            />
            {chosen && <span className="small soft">{chosen.note}</span>}
          </div>
          <Body mode={mode} chosen={chosen} named={named} />
        </>
      )}
    </>
  );
}

/** The chosen model, kept until the user chooses another model or another kind of call. */
function useKeptChoice(
  choices: ModelChoice[],
  named: string | undefined,
  mode: PlaygroundMode,
  isPending: boolean,
): ModelChoice | null {
  const kept = useRef<{ mode: PlaygroundMode; choice: ModelChoice | null }>({ mode, choice: null });
  if (isPending) return null;
  const before = kept.current.mode === mode ? kept.current.choice : null;
  const choice = keepChoice(choices, named, before);
  kept.current = { mode, choice };
  return choice;
}

function useChoices(mode: PlaygroundMode) {
  const operates = useHasScope("operate");
  const present = useQuery({
    queryKey: ["models", "capabilities"],
    queryFn: async () => (await unwrapResponse(api.GET("/api/models/capabilities"))).data,
  });
  const catalog = useQuery({
    queryKey: ["models", "catalog", "playground"],
    queryFn: async () =>
      (await unwrapResponse(api.GET("/api/models", { params: { query: { items: 200 } } }))).models,
    enabled: operates,
  });
  const choices = useMemo(
    () => listChoices(mode, present.data ?? [], catalog.data ?? []),
    [mode, present.data, catalog.data],
  );
  return { choices, isPending: present.isPending || (operates && catalog.isPending), error: present.error };
}

function Body({
  mode,
  chosen,
  named,
}: {
  mode: PlaygroundMode;
  chosen: ModelChoice | null;
  named: string | undefined;
}) {
  if (mode === "chat") return <Chat key={chosen?.name} choice={chosen} named={named} />;
  if (!chosen) {
    return (
      <EmptyState title={named ? `${named} does not support this.` : "No model supports this yet."}>
        Install one on the Models page.
      </EmptyState>
    );
  }
  if (mode === "embeddings") return <Embeddings choice={chosen} />;
  if (mode === "speech") return <Speech choice={chosen} />;
  return <Transcription choice={chosen} />;
}

function Chat({ choice, named }: { choice: ModelChoice | null; named: string | undefined }) {
  const [parameters, setParameters] = useState(DEFAULT_PARAMETERS);
  const conversation = useConversation(choice, parameters);
  const last = conversation.turns.at(-1)?.question ?? "Why is the sky blue?";
  if (!choice && named) {
    return <EmptyState title={`${named} does not support chat.`}>Choose another one above.</EmptyState>;
  }
  return (
    <div className="playground-columns">
      <ChatView conversation={conversation} choice={choice} />
      <aside aria-label="Parameters and code">
        <ParameterPanel
          model={choice?.name ?? ""}
          messages={makeMessages(conversation.turns.slice(0, -1), last)}
          parameters={parameters}
          onChange={setParameters}
        />
        {conversation.turns.length > 0 && (
          <div className="row playground-actions">
            <Button small icon="again" disabled={conversation.step !== null} onClick={conversation.retry}>
              Regenerate
            </Button>
            <Button small icon="trash" onClick={conversation.clear}>
              New chat
            </Button>
          </div>
        )}
      </aside>
    </div>
  );
}
