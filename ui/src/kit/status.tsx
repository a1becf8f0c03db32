// Shows a state as a word and a colour, never as a colour alone.
import type { ReactNode } from "react";
import { findStateWord } from "@/text/stateWords";

export type Tone = "good" | "busy" | "warn" | "bad" | "still";

export function Pill({ tone, children, title }: { tone: Tone; children: ReactNode; title?: string }) {
  return (
    <span className={`pill ${tone}`} title={title}>
      <span className="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

/** A small fact: a label, a kind, a version. */
export function Tag({ tone, children, title }: { tone?: Tone; children: ReactNode; title?: string }) {
  return (
    <span className={`tag ${tone ?? ""}`} title={title}>
      {children}
    </span>
  );
}

const NODE_TONES: Record<string, Tone> = {
  healthy: "good",
  pending: "warn",
  joining: "busy",
  draining: "warn",
  unhealthy: "bad",
  offline: "bad",
};

export function NodeStatus({ status, reason }: { status: string; reason?: string }) {
  return (
    <Pill tone={NODE_TONES[status] ?? "still"} title={reason}>
      {findStateWord("node", status)}
    </Pill>
  );
}

const REPLICA_TONES: Record<string, Tone> = { loaded: "good", idle: "good", failed: "bad" };

export function ReplicaState({ state }: { state: string }) {
  return <Pill tone={REPLICA_TONES[state] ?? "busy"}>{findStateWord("replica", state)}</Pill>;
}
