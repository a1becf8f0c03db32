// The signed-in caller and their scope. The server authorises; the page only hides what it would refuse.
import { createContext, useContext } from "react";
import type { CallerOut } from "@/api/schema";

const RANKS: Record<string, number> = { infer: 0, operate: 1, admin: 2 };

export type Scope = "infer" | "operate" | "admin";

export const MeContext = createContext<CallerOut | null>(null);

export function useMe(): CallerOut {
  const me = useContext(MeContext);
  if (!me) throw new Error("Not signed in.");
  return me;
}

export function useHasScope(scope: Scope): boolean {
  return hasScope(useMe().scope, scope);
}

export function hasScope(has: string, needs: Scope): boolean {
  return (RANKS[has] ?? -1) >= (RANKS[needs] ?? 0);
}
