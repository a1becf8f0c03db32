// Applies frames of the stream to the query cache. Progress is merged into cached operations; all other events make
// topics stale, which are refetched once, a quarter of a second later, however many frames came. Fifty operations at
// once therefore redraw a page four times a second.
import type { QueryClient } from "@tanstack/react-query";
import type { Topic } from "@/api/queries";
import type { LiveOut, NodeOut, OperationDetailOut, OperationOut } from "@/api/schema";
import { applyProgress, hasUnknownTargets, isFinalDelta } from "@/live/progress";
import { refetchQueries } from "@/live/refetch";
import { forgetNode } from "@/live/removedNodes";
import { listStaleTopics, listStaleTopicsAfterEnd } from "@/live/staleTopics";
import type { StreamFrame } from "@/live/stream";

const GATHER_MS = 250;

interface Event {
  key: string;
  data: Record<string, unknown>;
}

export class CacheUpdater {
  private staleTopics = new Set<Topic>();
  private progress = new Map<string, Partial<OperationDetailOut>[]>();
  private refetchTimer: number | undefined;
  private progressTimer: number | undefined;

  constructor(private readonly cache: QueryClient) {}

  applyFrame(frame: StreamFrame): void {
    switch (frame.kind) {
      case "hello":
        return;
      case "reset":
        refetchQueries(this.cache);
        return;
      case "live":
        this.cache.setQueryData<LiveOut>(["live"], frame.data as LiveOut);
        return;
      case "nodes":
        this.mergeNodes((frame.data as { nodes: Partial<NodeOut>[] }).nodes);
        return;
      case "operation.progress": {
        const event = frame.data as Event;
        const waiting = this.progress.get(event.key) ?? [];
        this.progress.set(event.key, [...waiting, event.data as Partial<OperationDetailOut>]);
        this.progressTimer ??= window.setTimeout(() => this.flushProgress(), GATHER_MS);
        return;
      }
      default:
        this.onRegistryEvent(frame.kind, frame.data as Event);
    }
  }

  private onRegistryEvent(kind: string, event: Event): void {
    if (kind === "node.removed") forgetNode(this.cache, event.key);
    const { state, kind: operation } = event.data;
    this.scheduleRefetch([
      ...listStaleTopics(kind, asText(operation)),
      ...listStaleTopicsAfterEnd(kind, asText(state), asText(operation)),
    ]);
  }

  private scheduleRefetch(topics: readonly Topic[]): void {
    for (const topic of topics) this.staleTopics.add(topic);
    this.refetchTimer ??= window.setTimeout(() => this.refetchStale(), GATHER_MS);
  }

  private refetchStale(): void {
    this.refetchTimer = undefined;
    const topics = this.staleTopics;
    this.staleTopics = new Set();
    for (const topic of topics) refetchQueries(this.cache, [topic]);
  }

  private flushProgress(): void {
    this.progressTimer = undefined;
    const waiting = this.progress;
    this.progress = new Map();
    const update = <T extends OperationOut>(operation: T): T => {
      const deltas = waiting.get(operation.id) ?? [];
      if (deltas.some((delta) => hasUnknownTargets(operation, delta) || isFinalDelta(delta)))
        this.scheduleRefetch(["operations"]);
      return deltas.reduce<T>((before, delta) => applyProgress(before, delta), operation);
    };
    this.cache.setQueryData<OperationOut[]>(["operations", "live"], (all) => all?.map(update));
    for (const id of waiting.keys()) {
      this.cache.setQueryData<OperationDetailOut>(["operations", "one", id], (one) => one && update(one));
    }
  }

  private mergeNodes(update: Partial<NodeOut>[]): void {
    const byId = new Map(update.map((node) => [node.id, node]));
    const merge = (node: NodeOut): NodeOut => ({ ...node, ...byId.get(node.id) });
    this.cache.setQueryData<NodeOut[]>(["nodes"], (all) =>
      all?.map((node) => (byId.has(node.id) ? merge(node) : node)),
    );
    this.cache.setQueriesData<NodeOut>(
      { queryKey: ["nodes", "one"] },
      (one) => one && (byId.has(one.id) ? merge(one) : one),
    );
  }
}

function asText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
