// What the address of a page says, and saying something else in it, typed by the route of the page.
import { type RegisteredRouter, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

type Routes = RegisteredRouter["routesById"];
/** Pages whose whole address is their name and what is asked: no part of it is a name of something. */
type Page = Exclude<keyof Routes, "__root__" | `${string}$${string}`>;
type Said<P extends Page> = Routes[P]["types"]["fullSearchSchema"];
/** What is typed replaces the entry before, so that Back leads to something else. */
type Say<P extends Page> = (part: Partial<Said<P>>, replaces?: boolean) => void;

export function useAddress<P extends Page>(page: P): [Said<P>, Say<P>] {
  // One route stands for all: the types of the router cannot follow a name that is itself a type.
  const search = useSearch({ from: page as "/access" }) as unknown as Said<P>;
  const navigate = useNavigate();
  const say = useCallback<Say<P>>(
    (part, replaces = false) =>
      void navigate({
        to: page as string,
        search: (was: object) => ({ ...was, ...part }),
        replace: replaces,
      }),
    [navigate, page],
  );
  return [search, say];
}
