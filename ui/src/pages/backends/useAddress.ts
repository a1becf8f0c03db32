// What the address says, and saying something else in it. What is typed replaces the entry before; Back means more.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import type { BackendsSearch } from "@/pages/backends/search";

type Say = (part: Partial<BackendsSearch>, replaces?: boolean) => void;

export function useAddress(): [BackendsSearch, Say] {
  const search = useSearch({ from: "/backends" });
  const navigate = useNavigate();
  const say = useCallback<Say>(
    (part, replaces = false) =>
      void navigate({
        to: "/backends",
        search: (was: object) => ({ ...(was as BackendsSearch), ...part }),
        replace: replaces,
      }),
    [navigate],
  );
  return [search, say];
}
