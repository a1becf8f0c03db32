// Queries and API calls about keys, users and stored secrets.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { KeyIn, KeyPatch, UserIn, UserPatch } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";

export const keys = queryOptions({
  queryKey: ["keys"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/keys")),
});

export const users = queryOptions({
  queryKey: ["users"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/users")),
});

const key = (key_id: string) => ({ params: { path: { key_id } } });
const user = (user_id: string) => ({ params: { path: { user_id } } });

export const makeKey = (body: KeyIn) => unwrapResponse(api.POST("/api/keys", { body }));
export const changeKey = (id: string, body: KeyPatch) =>
  unwrapResponse(api.PATCH("/api/keys/{key_id}", { ...key(id), body }));
export const rotateKey = (id: string, grace_s: number | null) =>
  unwrapResponse(api.POST("/api/keys/{key_id}/rotate", { ...key(id), body: { grace_s } }));
/** `last`: revoke the key even if no other admin key works. */
export const revokeKey = (id: string, last: boolean) =>
  unwrapResponse(api.DELETE("/api/keys/{key_id}", { params: { path: { key_id: id }, query: { last } } }));

export const makeUser = (body: UserIn) => unwrapResponse(api.POST("/api/users", { body }));
export const changeUser = (id: string, body: UserPatch) =>
  unwrapResponse(api.PATCH("/api/users/{user_id}", { ...user(id), body }));
export const removeUser = (id: string) => unwrapResponse(api.DELETE("/api/users/{user_id}", user(id)));

export type SecretScope = "own" | "cluster";

/** Callers without the scope `operate` have no stream that announces changes. */
const NO_STREAM_POLL_MS = 15_000;

export const secrets = (scope: SecretScope, hasStream: boolean) =>
  queryOptions({
    queryKey: ["secrets", scope] as const,
    queryFn: () => unwrapResponse(api.GET("/api/secrets", { params: { query: { scope } } })),
    refetchInterval: hasStream ? pollWhenLost : NO_STREAM_POLL_MS,
  });

export const setSecret = (scope: SecretScope, name: string, value: string) =>
  unwrapResponse(
    api.PUT("/api/secrets/{name}", { params: { path: { name }, query: { scope } }, body: { value } }),
  );
export const deleteSecret = (scope: SecretScope, name: string) =>
  unwrapResponse(api.DELETE("/api/secrets/{name}", { params: { path: { name }, query: { scope } } }));
