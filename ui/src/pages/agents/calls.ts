// Queries and API calls about agents, their threads and messages. Admins may name the owner of another user's agent.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { AgentIn, AgentMessageOut, AgentOut, ThreadMessageOut } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";

/** Callers without the scope `operate` have no stream that announces changes. */
const NO_STREAM_POLL_MS = 10_000;
/** How many threads are listed, the one used last first. */
export const THREADS_SHOWN = 200;
/** How many messages of a thread are read at first, and more on request. */
export const MESSAGES_PER_VIEW = 300;
const READS_MAX = 50;

/** Which agent is meant: by name, and for admins by its owner, too. */
export interface AgentKey {
  name: string;
  owner?: string | undefined;
}

const at = ({ name, owner }: AgentKey) => ({
  params: { path: { name }, ...(owner ? { query: { owner } } : {}) },
});

export const agentsQuery = (isEverybody: boolean, hasStream: boolean) =>
  queryOptions({
    queryKey: ["agents", "list", isEverybody] as const,
    queryFn: async () =>
      (
        await unwrapResponse(
          api.GET("/api/agents", { params: { query: isEverybody ? { all_users: true } : {} } }),
        )
      ).items,
    refetchInterval: hasStream ? pollWhenLost : NO_STREAM_POLL_MS,
  });

export const agentQuery = (key: AgentKey, hasStream: boolean) =>
  queryOptions({
    queryKey: ["agents", "one", key.name, key.owner ?? ""] as const,
    queryFn: () => unwrapResponse(api.GET("/api/agents/{name}", at(key))),
    refetchInterval: hasStream ? pollWhenLost : NO_STREAM_POLL_MS,
  });

/** Its newest runs for the caller, and whether it works now. */
export const agentStatusQuery = (key: AgentKey) =>
  queryOptions({
    queryKey: ["agents", "status", key.name, key.owner ?? ""] as const,
    queryFn: () => unwrapResponse(api.GET("/api/agents/{name}/status", at(key))),
    refetchInterval: ({ state }) => (state.data && state.data.open_runs > 0 ? 3000 : NO_STREAM_POLL_MS),
  });

export const agentFormQuery = queryOptions({
  queryKey: ["agents", "form"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/agents/config/metadata")),
  staleTime: Number.POSITIVE_INFINITY,
});

export const declaredServersQuery = queryOptions({
  queryKey: ["agents", "servers"] as const,
  queryFn: async () => (await unwrapResponse(api.GET("/api/mcp/servers"))).servers,
});

/** The names of models that can chat. */
export const chatModelsQuery = queryOptions({
  queryKey: ["models", "capabilities", "chat"] as const,
  queryFn: async () =>
    (await unwrapResponse(api.GET("/api/models/capabilities"))).data
      .filter((model) => !model.disabled && model.capabilities.includes("chat"))
      .map((model) => model.name)
      .sort((one, other) => one.localeCompare(other)),
});

export const createAgent = (body: AgentIn) => unwrapResponse(api.POST("/api/agents", { body }));
export const replaceAgent = (key: AgentKey, body: AgentIn) =>
  unwrapResponse(api.PUT("/api/agents/{name}", { ...at(key), body }));
export const pauseAgent = (key: AgentKey): Promise<AgentOut> =>
  unwrapResponse(api.PUT("/api/agents/{name}/pause", at(key)));
export const resumeAgent = (key: AgentKey): Promise<AgentOut> =>
  unwrapResponse(api.PUT("/api/agents/{name}/resume", at(key)));
export const cloneAgent = (key: AgentKey, name: string) =>
  unwrapResponse(api.POST("/api/agents/{name}/clone", { ...at(key), body: { name } }));
export const deleteAgent = (key: AgentKey) => unwrapResponse(api.DELETE("/api/agents/{name}", at(key)));
/** The address of the document of an agent, which the browser saves. */
export const exportAddress = ({ name, owner }: AgentKey): string =>
  `/api/agents/${encodeURIComponent(name)}/export${owner ? `?owner=${encodeURIComponent(owner)}` : ""}`;
export const importAgent = (document: Record<string, unknown>, name: string) =>
  unwrapResponse(api.POST("/api/agents/import", { params: { query: name ? { name } : {} }, body: document }));

export const threadsQuery = (name: string) =>
  queryOptions({
    queryKey: ["agents", "threads", name] as const,
    queryFn: async () =>
      (
        await unwrapResponse(
          api.GET("/api/agents/{name}/threads", {
            params: { path: { name }, query: { limit: THREADS_SHOWN } },
          }),
        )
      ).threads,
  });

export const deleteThread = (name: string, thread_id: string) =>
  unwrapResponse(
    api.DELETE("/api/agents/{name}/threads/{thread_id}", { params: { path: { name, thread_id } } }),
  );

export interface ThreadMessages {
  messages: ThreadMessageOut[];
  /** The number of the last message that was left out before these; 0 if none was. */
  skipped: number;
}

/** The newest messages of a thread, `views` times as many as are read at first. */
export const messagesQuery = (name: string, thread: string, views: number) =>
  queryOptions({
    queryKey: ["agents", "messages", name, thread, views] as const,
    queryFn: () => readMessages(name, thread, views * MESSAGES_PER_VIEW),
  });

async function readMessages(name: string, thread_id: string, newest: number): Promise<ThreadMessages> {
  const path = { name, thread_id };
  const thread = await unwrapResponse(
    api.GET("/api/agents/{name}/threads/{thread_id}", { params: { path } }),
  );
  const skipped = Math.max(0, thread.messages - newest);
  const messages: ThreadMessageOut[] = [];
  for (let reads = 0; reads < READS_MAX; reads += 1) {
    const after = messages.at(-1)?.seq ?? skipped;
    const page = await unwrapResponse(
      api.GET("/api/agents/{name}/threads/{thread_id}/messages", { params: { path, query: { after } } }),
    );
    messages.push(...page.messages);
    if (!page.has_more) break;
  }
  return { messages, skipped };
}

export interface NewMessage {
  text: string;
  thread: string | undefined;
  /** Sent again with the same key, a message is stored once. */
  idempotencyKey: string;
}

export const sendMessage = (
  name: string,
  { text, thread, idempotencyKey }: NewMessage,
): Promise<AgentMessageOut> =>
  unwrapResponse(
    api.POST("/api/agents/{name}/chat", {
      params: { path: { name } },
      headers: { "Idempotency-Key": idempotencyKey },
      body: { message: text, ...(thread ? { thread_id: thread } : {}) },
    }),
  );

/** The address of the stream of an agent's turns for the caller. */
export const agentStreamAddress = (name: string): string =>
  `/api/agents/${encodeURIComponent(name)}/sse?signs=true`;
