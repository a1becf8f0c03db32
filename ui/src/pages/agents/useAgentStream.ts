// Follows the stream of an agent: the caller's turns in all threads. A hidden tab holds no connection; when it is shown
// again, the stream continues behind the last event that arrived.
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { type ConnectionStatus, EventStream, type StreamFrame } from "@/live/stream";
import { runWhileVisible } from "@/live/tabStream";
import { agentStreamAddress } from "@/pages/agents/calls";
import {
  AGENT_EVENTS,
  applyFrames,
  beginTurn,
  type LiveTurns,
  NO_TURNS,
  type Turn,
} from "@/pages/agents/turns";

export interface AgentStream {
  turns: LiveTurns;
  connection: ConnectionStatus;
  /** Shows the turn of a message that was sent, before the stream has it. */
  begin: (turn: Pick<Turn, "runId" | "threadId" | "question">) => void;
}

interface StreamState {
  turns: LiveTurns;
  connection: ConnectionStatus;
}

const NOTHING: StreamState = { turns: NO_TURNS, connection: "connecting" };

export function useAgentStream(name: string): AgentStream {
  const cache = useQueryClient();
  const [state, setState] = useState(NOTHING);
  useEffect(() => {
    let frame: number | undefined;
    let waiting: StreamFrame[] = [];
    const refreshThreads = () => {
      void cache.invalidateQueries({ queryKey: ["agents", "messages", name] });
      void cache.invalidateQueries({ queryKey: ["agents", "threads", name] });
    };
    const show = () => {
      frame = undefined;
      const came = waiting;
      waiting = [];
      setState((before) => ({ ...before, turns: applyFrames(before.turns, came) }));
      const changed = came
        .filter(({ kind }) => kind === "json_message_status")
        .map(({ data }) => readRun(data));
      for (const run of new Set(changed)) void cache.invalidateQueries({ queryKey: ["runs", "one", run] });
      if (changed.length > 0) refreshThreads();
    };
    const take = (came: StreamFrame) => {
      // A turn that ended before the stream began is in none of its events, but in the messages.
      if (came.kind === "hello") {
        refreshThreads();
        return;
      }
      waiting.push(came);
      frame ??= window.requestAnimationFrame(show);
    };
    const stream = new EventStream(
      {
        onFrame: take,
        onConnection: (connection) => setState((before) => ({ ...before, connection })),
        // The agent was deleted or renamed, or the session has ended.
        onRefused: () => void cache.invalidateQueries({ queryKey: ["agents", "one", name] }),
      },
      AGENT_EVENTS,
      agentStreamAddress(name),
    );
    const close = runWhileVisible(stream);
    return () => {
      close();
      if (frame !== undefined) window.cancelAnimationFrame(frame);
      setState(NOTHING);
    };
  }, [name, cache]);
  const begin = useCallback<AgentStream["begin"]>(
    (turn) => setState((before) => ({ ...before, turns: beginTurn(before.turns, turn) })),
    [],
  );
  return { ...state, begin };
}

const readRun = (data: unknown): string => String((data as { run_id?: unknown } | null)?.run_id ?? "");
