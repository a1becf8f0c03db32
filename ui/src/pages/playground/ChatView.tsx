// The conversation: questions and answers with the model and speed of each, and the form for the next question.
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { AnswerText } from "@/kit/AnswerText";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import type { AnswerFacts } from "@/pages/playground/chat";
import { describeChoice, type ModelChoice } from "@/pages/playground/choices";
import { LoadProgress } from "@/pages/playground/LoadProgress";
import type { Conversation } from "@/pages/playground/useConversation";
import { duration } from "@/text/format";

const EXAMPLE = "Why is the sky blue?";

export function ChatView({
  conversation,
  choice,
}: {
  conversation: Conversation;
  choice: ModelChoice | null;
}) {
  const { turns, step, error } = conversation;
  const end = useRef<HTMLDivElement>(null);
  const length = turns.length + (turns.at(-1)?.answer.length ?? 0);
  useEffect(() => {
    if (length > 0) end.current?.scrollIntoView({ block: "nearest" });
  }, [length]);
  return (
    <section className="playground-talk" aria-label="Conversation">
      <div className="playground-turns">
        {turns.length === 0 && <EmptyChat choice={choice} />}
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
                {turn.answer && <AnswerText text={turn.answer} />}
                {isLast && step && <LoadProgress step={step} model={choice?.name ?? ""} />}
                {isLast && error !== null && <ErrorNotice error={error} onRetry={conversation.retry} />}
                {turn.facts && <FactLine facts={turn.facts} />}
              </div>
            </article>
          );
        })}
        <div ref={end} />
      </div>
      <QuestionForm conversation={conversation} choice={choice} />
    </section>
  );
}

function EmptyChat({ choice }: { choice: ModelChoice | null }) {
  return (
    <div className="playground-beginning soft">
      <h2>{choice ? `Chat with ${choice.name}` : "No model can chat yet"}</h2>
      <p>{describeChoice(choice)}</p>
    </div>
  );
}

function FactLine({ facts }: { facts: AnswerFacts }) {
  const words = [
    facts.node && `answered by ${facts.node}`,
    facts.firstTokenMs !== null && `first token after ${duration(facts.firstTokenMs / 1000)}`,
    facts.tokens !== null && `${facts.tokens} tokens`,
    facts.tokensPerS !== null && `${facts.tokensPerS.toFixed(1)} tokens/s`,
    facts.queueMs ? `${duration(facts.queueMs / 1000)} in the queue` : null,
    facts.finish === "length" && "stopped at the token limit",
    facts.finish === "stopped" && "stopped",
  ].filter(Boolean);
  return <p className="small faint playground-facts">{words.join(" · ")}</p>;
}

function QuestionForm({ conversation, choice }: { conversation: Conversation; choice: ModelChoice | null }) {
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
        placeholder="Send a message. Enter sends, Shift+Enter adds a line."
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
