// The conversation with an agent: threads, the turns of one, and the form for the next message.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import {
  type MouseEvent,
  type ReactNode,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { asProblem } from "@/api/client";
import type { AgentConfigOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { EmptyState } from "@/kit/Panel";
import { LoadingLines } from "@/kit/QueryView";
import { messagesQuery } from "@/pages/agents/calls";
import { MessageForm } from "@/pages/agents/MessageForm";
import { ThreadList } from "@/pages/agents/ThreadList";
import { TurnView } from "@/pages/agents/TurnView";
import { findRunningTurn, groupMessages, mergeTurns } from "@/pages/agents/turns";
import { type AgentStream, useAgentStream } from "@/pages/agents/useAgentStream";
import "@/pages/agents/chat.css";

const NO_MESSAGES: never[] = [];

export function Chat({ agent }: { agent: AgentConfigOut }) {
  const { thread } = useSearch({ from: "/agents/$agent" });
  const navigate = useNavigate({ from: "/agents/$agent" });
  const stream = useAgentStream(agent.name);
  // What was written and not sent, by thread.
  const drafts = useRef(new Map<string, string>());
  const isLost = stream.connection === "lost" || stream.connection === "silent";
  const openThread = (id: string | undefined, replace = false) =>
    void navigate({ search: (before) => ({ ...before, thread: id }), replace });
  return (
    <div className="chat">
      <ThreadList
        agent={agent.name}
        chosen={thread}
        onDeleted={(id) => id === thread && openThread(undefined, true)}
      />
      <section className="chat-talk" aria-label="Conversation">
        {isLost && (
          <p className="small chat-lost" role="status">
            The connection is lost. The conversation continues when it is back.
          </p>
        )}
        <Thread
          key={thread ?? ""}
          agent={agent}
          thread={thread}
          stream={stream}
          drafts={drafts.current}
          onNew={() => openThread(undefined)}
          onStarted={(id) => openThread(id, true)}
        />
      </section>
    </div>
  );
}

interface ThreadProps {
  agent: AgentConfigOut;
  thread: string | undefined;
  stream: AgentStream;
  drafts: Map<string, string>;
  onNew: () => void;
  onStarted: (thread: string) => void;
}

function Thread({ agent, thread, stream, drafts, onNew, onStarted }: ThreadProps) {
  const [views, setViews] = useState(1);
  const query = useQuery({
    ...messagesQuery(agent.name, thread ?? "", views),
    enabled: thread !== undefined,
    placeholderData: (before) => before,
  });
  const messages = query.data?.messages ?? NO_MESSAGES;
  const stored = useMemo(() => groupMessages(messages, thread ?? ""), [messages, thread]);
  const turns = useMemo(
    () => (thread === undefined ? [] : mergeTurns(stored, stream.turns, thread)),
    [stored, stream.turns, thread],
  );
  const running = findRunningTurn(turns);
  if (query.error && asProblem(query.error).status === 404) {
    return (
      <EmptyState title="This thread does not exist any more.">
        <Button small onClick={onNew}>
          New thread
        </Button>
      </EmptyState>
    );
  }
  return (
    <>
      <ScrolledTurns count={turns.length}>
        {query.data && query.data.skipped > 0 && (
          <div className="chat-earlier">
            <Button small busy={query.isFetching} onClick={() => setViews(views + 1)}>
              Show earlier messages
            </Button>
          </div>
        )}
        {thread === undefined && <EmptyChat agent={agent} />}
        {thread !== undefined && query.isPending && turns.length === 0 && <LoadingLines />}
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
        {turns.map((turn, place) => (
          <TurnView
            key={turn.runId || `turn ${place}`}
            turn={turn}
            agent={agent.name}
            isLast={place === turns.length - 1}
            isLive={stream.turns.has(turn.runId)}
          />
        ))}
      </ScrolledTurns>
      <MessageForm
        agent={agent}
        thread={thread}
        running={running}
        draft={drafts.get(thread ?? "") ?? ""}
        onDraft={(text) => drafts.set(thread ?? "", text)}
        onSent={(sent, text) => {
          stream.begin({ runId: sent.run_id, threadId: sent.thread_id, question: text });
          if (sent.thread_id !== thread) onStarted(sent.thread_id);
        }}
      />
    </>
  );
}

/** Stays at the end while the conversation grows, unless the reader has scrolled up. */
function ScrolledTurns({ count, children }: { count: number; children: ReactNode }) {
  const content = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (!content.current || !end.current) return;
    const marker = end.current;
    const visibility = new IntersectionObserver(
      ([entry]) => {
        isAtEnd.current = entry?.isIntersecting ?? true;
      },
      { rootMargin: "0px 0px 120px 0px" },
    );
    const growth = new ResizeObserver(() => {
      if (isAtEnd.current) marker.scrollIntoView({ block: "nearest" });
    });
    visibility.observe(marker);
    growth.observe(content.current);
    return () => {
      visibility.disconnect();
      growth.disconnect();
    };
  }, []);
  // A message of one's own is scrolled to from wherever one reads.
  useLayoutEffect(() => {
    if (count > 0) isAtEnd.current = true;
  }, [count]);
  // A person who opens a step reads it, so the page does not scroll away from it.
  const onClick = (event: MouseEvent) => {
    if ((event.target as Element).closest(".chat-head")) isAtEnd.current = false;
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the clicks are those of the buttons inside
    // biome-ignore lint/a11y/useKeyWithClickEvents: keys click these buttons, too
    <div className="chat-turns" onClick={onClick}>
      <div ref={content} className="chat-content">
        {children}
      </div>
      <div ref={end} className="chat-end" />
    </div>
  );
}

function EmptyChat({ agent }: { agent: AgentConfigOut }) {
  return (
    <div className="chat-beginning soft">
      <h2>{`Talk to ${agent.name}`}</h2>
      <p>
        {agent.description || `It answers with ${agent.model}, and remembers the messages of its thread.`}
      </p>
    </div>
  );
}
