// Queries and API calls of the settings page.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { TokenIn } from "@/api/schema";

/** Settings change when an admin changes them, when a frontend restarts, and when another frontend answers. */
export const settings = queryOptions({
  queryKey: ["settings"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/settings")),
  staleTime: 60_000,
});

/** Changes a live setting; null restores the default. */
export const changeSetting = (name: string, value: string | null) =>
  unwrapResponse(api.POST("/api/settings", { body: { [name]: value } }));

export const tokens = queryOptions({
  queryKey: ["tokens"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/tokens")),
  // A machine that joins uses a token up without an event about the token.
  staleTime: 0,
});

export const makeToken = (body: TokenIn) => unwrapResponse(api.POST("/api/tokens", { body }));
export const revokeToken = (token_id: string) =>
  unwrapResponse(api.DELETE("/api/tokens/{token_id}", { params: { path: { token_id } } }));

export const GALLERY_KINDS = ["backends", "models"] as const;
export type GalleryKind = (typeof GALLERY_KINDS)[number];

export const galleries = (kind: GalleryKind) =>
  queryOptions({
    queryKey: ["galleries", kind] as const,
    queryFn: () => unwrapResponse(api.GET(`/api/${kind}/galleries`)),
    staleTime: 0,
  });

export const refreshGalleries = (kind: GalleryKind) =>
  unwrapResponse(api.POST(`/api/${kind}/galleries/refresh`));

const PAGE = 50;

/** The audit log in pages, newest first. A page never changes; new entries are read when the tab is opened. */
export const audit = infiniteQueryOptions({
  queryKey: ["audit"] as const,
  queryFn: ({ pageParam }) =>
    unwrapResponse(api.GET("/api/audit", { params: { query: { limit: PAGE, before: pageParam } } })),
  initialPageParam: null as number | null,
  getNextPageParam: (page) => page.next,
  staleTime: 0,
});
