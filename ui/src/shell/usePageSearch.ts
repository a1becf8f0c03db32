// Reads and changes the search parameters of a page, typed by the route of the page.
import { type RegisteredRouter, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

type Routes = RegisteredRouter["routesById"];
/** Pages whose path has no parameter: only their search parameters change. */
type Page = Exclude<keyof Routes, "__root__" | `${string}$${string}`>;
type PageSearch<P extends Page> = Routes[P]["types"]["fullSearchSchema"];
/** `replaces` is set while the user types: the history gets no entry for each letter, so that Back leaves the page. */
type SetPageSearch<P extends Page> = (part: Partial<PageSearch<P>>, replaces?: boolean) => void;

export function usePageSearch<P extends Page>(page: P): [PageSearch<P>, SetPageSearch<P>] {
  // The path is typed as one route for all, because the router's types do not accept a generic path.
  const search = useSearch({ from: page as "/access" }) as unknown as PageSearch<P>;
  const navigate = useNavigate();
  const setSearch = useCallback<SetPageSearch<P>>(
    (part, replaces = false) =>
      void navigate({
        to: page as string,
        search: (was: object) => ({ ...was, ...part }),
        replace: replaces,
      }),
    [navigate, page],
  );
  return [search, setSearch];
}
