// From frames to the query cache. Progress is laid into what is there, everything else is read anew: a quarter of a
// second later and once, however many frames there were. Fifty operations at once draw a page four times a second.
import type { QueryClient } from "@tanstack/react-query";
import type { Topic } from "@/api/queries";
import type { LiveOut, NodeOut, OperationInFull, OperationOut } from "@/api/schema";
import { madeOld, madeOldByEnd } from "@/live/changes";
import { tellsOfOthers, tellsTheEnd, withProgress } from "@/live/progress";
import { forgetNode, mayBeAsked } from "@/live/removed";
import type { Frame } from "@/live/stream";

const GATHER_MS = 250;

interface Event {
  key: string;
  data: Record<string, unknown>;
}

export class Feed {
  private old = new Set<Topic>();
  private progress = new Map<string, Partial<OperationInFull>[]>();
  private timer: number | undefined;
  private showing: number | undefined;

  constructor(private readonly cache: QueryClient) {}

  take(frame: Frame): void {
    switch (frame.kind) {
      case "hello":
        return;
      case "reset":
        void this.cache.invalidateQueries();
        return;
      case "live":
        this.cache.setQueryData<LiveOut>(["live"], frame.data as LiveOut);
        return;
      case "nodes":
        this.moveNodes((frame.data as { nodes: Partial<NodeOut>[] }).nodes);
        return;
      case "operation.progress": {
        const event = frame.data as Event;
        const waiting = this.progress.get(event.key) ?? [];
        this.progress.set(event.key, [...waiting, event.data as Partial<OperationInFull>]);
        this.showing ??= window.setTimeout(() => this.showProgress(), GATHER_MS);
        return;
      }
      default:
        this.makeOld(frame.kind, frame.data as Event);
    }
  }

  private makeOld(kind: string, event: Event): void {
    if (kind === "node.removed") forgetNode(this.cache, event.key);
    const state = typeof event.data.state === "string" ? event.data.state : undefined;
    this.readSoon([...madeOld(kind), ...madeOldByEnd(kind, state)]);
  }

  private readSoon(topics: readonly Topic[]): void {
    for (const topic of topics) this.old.add(topic);
    this.timer ??= window.setTimeout(() => this.readAnew(), GATHER_MS);
  }

  private readAnew(): void {
    this.timer = undefined;
    const topics = this.old;
    this.old = new Set();
    // Reads that are under way may have begun before the change: they are begun again, not joined.
    for (const topic of topics)
      void this.cache.invalidateQueries(
        { queryKey: [topic], predicate: mayBeAsked },
        { cancelRefetch: true },
      );
  }

  private showProgress(): void {
    this.showing = undefined;
    const waiting = this.progress;
    this.progress = new Map();
    const moved = <T extends OperationOut>(operation: T): T => {
      const deltas = waiting.get(operation.id) ?? [];
      if (deltas.some((delta) => tellsOfOthers(operation, delta) || tellsTheEnd(delta)))
        this.readSoon(["operations"]);
      return deltas.reduce<T>((before, delta) => withProgress(before, delta), operation);
    };
    this.cache.setQueryData<OperationOut[]>(["operations", "live"], (all) => all?.map(moved));
    for (const id of waiting.keys()) {
      this.cache.setQueryData<OperationInFull>(["operations", "one", id], (one) => one && moved(one));
    }
  }

  private moveNodes(moved: Partial<NodeOut>[]): void {
    const byId = new Map(moved.map((node) => [node.id, node]));
    const laid = (node: NodeOut): NodeOut => ({ ...node, ...byId.get(node.id) });
    this.cache.setQueryData<NodeOut[]>(["nodes"], (all) =>
      all?.map((node) => (byId.has(node.id) ? laid(node) : node)),
    );
    this.cache.setQueriesData<NodeOut>(
      { queryKey: ["nodes", "one"] },
      (one) => one && (byId.has(one.id) ? laid(one) : one),
    );
  }
}
