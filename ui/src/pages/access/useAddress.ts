// What the address says, and saying something else in it. What is typed replaces the entry before.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import type { AccessSearch } from "@/pages/access/search";

type Say = (part: Partial<AccessSearch>, replaces?: boolean) => void;

export function useAddress(): [AccessSearch, Say] {
  const search = useSearch({ from: "/access" });
  const navigate = useNavigate();
  const say = useCallback<Say>(
    (part, replaces = false) =>
      void navigate({
        to: "/access",
        search: (was: object) => ({ ...(was as AccessSearch), ...part }),
        replace: replaces,
      }),
    [navigate],
  );
  return [search, say];
}
