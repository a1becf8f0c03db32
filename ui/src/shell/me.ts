// Who is here, and what they may. The server decides; the page only leaves out what it would refuse.
import { createContext, useContext } from "react";
import type { MeOut } from "@/api/schema";

const RANKS: Record<string, number> = { infer: 0, operate: 1, admin: 2 };

export type Scope = "infer" | "operate" | "admin";

export const MeContext = createContext<MeOut | null>(null);

export function useMe(): MeOut {
  const me = useContext(MeContext);
  if (!me) throw new Error("Nobody is logged in.");
  return me;
}

export function useMay(scope: Scope): boolean {
  return may(useMe().scope, scope);
}

export function may(has: string, needs: Scope): boolean {
  return (RANKS[has] ?? -1) >= (RANKS[needs] ?? 0);
}
