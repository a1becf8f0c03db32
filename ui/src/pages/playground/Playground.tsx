// Talk to the fleet: chat, vectors, speech, transcription.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";
import { answer, api } from "@/api/client";
import { Waiting } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Segments } from "@/kit/fields";
import { Empty, PageHead } from "@/kit/Panel";
import { Trouble } from "@/kit/Trouble";
import { PARAMETERS } from "@/pages/playground/chat";
import { type Choice, choicesOf, heldChoice, type Mode } from "@/pages/playground/choices";
import { messagesOf } from "@/pages/playground/conversation";
import { Embeddings } from "@/pages/playground/Embeddings";
import { Picker } from "@/pages/playground/Picker";
import { Side } from "@/pages/playground/Side";
import { Speech } from "@/pages/playground/Speech";
import { Talk } from "@/pages/playground/Talk";
import { Transcription } from "@/pages/playground/Transcription";
import { useConversation } from "@/pages/playground/useConversation";
import { useMay } from "@/shell/me";
import "@/pages/playground/playground.css";

const MODES: { value: Mode; label: string }[] = [
  { value: "chat", label: "Chat" },
  { value: "embeddings", label: "Embeddings" },
  { value: "speech", label: "Speech" },
  { value: "transcription", label: "Transcription" },
];

export default function Playground() {
  const { model: named, mode = "chat" } = useSearch({ from: "/playground" });
  const navigate = useNavigate({ from: "/playground" });
  const { choices, isPending, error } = useChoices(mode);
  const chosen = useHeld(choices, named, mode, isPending);
  return (
    <>
      <PageHead title="Playground">
        <Segments
          label="What to do"
          value={mode}
          options={MODES}
          onChange={(next) =>
            void navigate({ search: { mode: next === "chat" ? undefined : next, model: undefined } })
          }
        />
      </PageHead>
      <Trouble error={error} />
      {isPending ? (
        <Waiting />
      ) : (
        <>
          <div className="row playground-head">
            <Picker
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

/** The choice, held as long as nobody chooses another one or another thing to do. */
function useHeld(
  choices: Choice[],
  named: string | undefined,
  mode: Mode,
  isPending: boolean,
): Choice | null {
  const held = useRef<{ mode: Mode; choice: Choice | null }>({ mode, choice: null });
  if (isPending) return null;
  const before = held.current.mode === mode ? held.current.choice : null;
  const choice = heldChoice(choices, named, before);
  held.current = { mode, choice };
  return choice;
}

function useChoices(mode: Mode) {
  const operates = useMay("operate");
  const present = useQuery({
    queryKey: ["models", "capabilities"],
    queryFn: async () => (await answer(api.GET("/api/models/capabilities"))).data,
  });
  const catalog = useQuery({
    queryKey: ["models", "catalog", "playground"],
    queryFn: async () => (await answer(api.GET("/api/models", { params: { query: { items: 200 } } }))).models,
    enabled: operates,
  });
  const choices = useMemo(
    () => choicesOf(mode, present.data ?? [], catalog.data ?? []),
    [mode, present.data, catalog.data],
  );
  return { choices, isPending: present.isPending || (operates && catalog.isPending), error: present.error };
}

function Body({ mode, chosen, named }: { mode: Mode; chosen: Choice | null; named: string | undefined }) {
  if (mode === "chat") return <Chat key={chosen?.name} choice={chosen} named={named} />;
  if (!chosen) {
    return (
      <Empty title={named ? `There is no model ${named} that does this.` : "No model does this yet."}>
        Install one on the page Models.
      </Empty>
    );
  }
  if (mode === "embeddings") return <Embeddings choice={chosen} />;
  if (mode === "speech") return <Speech choice={chosen} />;
  return <Transcription choice={chosen} />;
}

function Chat({ choice, named }: { choice: Choice | null; named: string | undefined }) {
  const [parameters, setParameters] = useState(PARAMETERS);
  const conversation = useConversation(choice, parameters);
  const last = conversation.turns.at(-1)?.question ?? "Why is the sky blue?";
  if (!choice && named) {
    return <Empty title={`There is no model ${named} that chats.`}>Choose another one above.</Empty>;
  }
  return (
    <div className="playground-columns">
      <Talk conversation={conversation} choice={choice} />
      <aside aria-label="Parameters and code">
        <Side
          model={choice?.name ?? ""}
          messages={messagesOf(conversation.turns.slice(0, -1), last)}
          parameters={parameters}
          onChange={setParameters}
        />
        {conversation.turns.length > 0 && (
          <div className="row playground-actions">
            <Button small icon="again" disabled={conversation.step !== null} onClick={conversation.again}>
              Answer again
            </Button>
            <Button small icon="trash" onClick={conversation.clear}>
              Begin anew
            </Button>
          </div>
        )}
      </aside>
    </div>
  );
}
