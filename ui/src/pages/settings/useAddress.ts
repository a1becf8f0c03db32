// What the address says, and saying something else in it. What is typed replaces the entry before.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import type { SettingsSearch } from "@/pages/settings/search";

type Say = (part: Partial<SettingsSearch>, replaces?: boolean) => void;

export function useAddress(): [SettingsSearch, Say] {
  const search = useSearch({ from: "/settings" });
  const navigate = useNavigate();
  const say = useCallback<Say>(
    (part, replaces = false) =>
      void navigate({
        to: "/settings",
        search: (was: object) => ({ ...(was as SettingsSearch), ...part }),
        replace: replaces,
      }),
    [navigate],
  );
  return [search, say];
}
