// The conversation: what was asked, what was answered, by whom and how fast, and the line for the next question.
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { Button } from "@/kit/Button";
import { Trouble } from "@/kit/Trouble";
import type { Facts } from "@/pages/playground/chat";
import { type Choice, invitation } from "@/pages/playground/choices";
import { Underway } from "@/pages/playground/Underway";
import type { Conversation } from "@/pages/playground/useConversation";
import { Written } from "@/pages/playground/Written";
import { duration } from "@/text/format";

const EXAMPLE = "Why is the sky blue?";

export function Talk({ conversation, choice }: { conversation: Conversation; choice: Choice | null }) {
  const { turns, step, error } = conversation;
  const end = useRef<HTMLDivElement>(null);
  const length = turns.length + (turns.at(-1)?.answer.length ?? 0);
  useEffect(() => {
    if (length > 0) end.current?.scrollIntoView({ block: "nearest" });
  }, [length]);
  return (
    <section className="playground-talk" aria-label="Conversation">
      <div className="playground-turns">
        {turns.length === 0 && <Beginning choice={choice} />}
        {turns.map((turn, place) => {
          const isLast = place === turns.length - 1;
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: turns only come at the end
            <article key={place} className="playground-turn">
              <p className="playground-question">
                <span className="unseen">You: </span>
                {turn.question}
              </p>
              <div className="playground-answer" aria-busy={isLast && step !== null}>
                <span className="unseen">{choice?.name}: </span>
                {turn.answer && <Written text={turn.answer} />}
                {isLast && step && <Underway step={step} model={choice?.name ?? ""} />}
                {isLast && error !== null && <Trouble error={error} onRetry={conversation.again} />}
                {turn.facts && <FactLine facts={turn.facts} />}
              </div>
            </article>
          );
        })}
        <div ref={end} />
      </div>
      <Ask conversation={conversation} choice={choice} />
    </section>
  );
}

function Beginning({ choice }: { choice: Choice | null }) {
  return (
    <div className="playground-beginning soft">
      <h2>{choice ? `Talk to ${choice.name}` : "No model can chat yet"}</h2>
      <p>{invitation(choice)}</p>
    </div>
  );
}

function FactLine({ facts }: { facts: Facts }) {
  const words = [
    facts.node && `answered by ${facts.node}`,
    facts.firstTokenMs !== null && `first token after ${duration(facts.firstTokenMs / 1000)}`,
    facts.tokens !== null && `${facts.tokens} tokens`,
    facts.tokensPerS !== null && `${facts.tokensPerS.toFixed(1)} tokens/s`,
    facts.queueMs ? `${duration(facts.queueMs / 1000)} in the queue` : null,
    facts.finish === "length" && "cut at the limit of tokens",
    facts.finish === "stopped" && "stopped",
  ].filter(Boolean);
  return <p className="small faint playground-facts">{words.join(" · ")}</p>;
}

function Ask({ conversation, choice }: { conversation: Conversation; choice: Choice | null }) {
  const isFirst = conversation.turns.length === 0;
  const [text, setText] = useState(isFirst ? EXAMPLE : "");
  const send = () => {
    if (!text.trim() || !choice || conversation.step) return;
    conversation.send(text.trim());
    setText("");
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
  return (
    <form className="playground-ask" onSubmit={onSubmit}>
      <textarea
        aria-label="Your message"
        rows={2}
        value={text}
        placeholder="Ask something. Enter sends, Shift and Enter makes a new line."
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {conversation.step ? (
        <Button icon="stop" onClick={conversation.stop}>
          Stop
        </Button>
      ) : (
        <Button kind="primary" icon="send" type="submit" disabled={!choice || !text.trim()}>
          Send
        </Button>
      )}
    </form>
  );
}
