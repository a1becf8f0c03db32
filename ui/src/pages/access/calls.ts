// Queries and API calls about keys and users.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { KeyIn, KeyPatch, UserIn, UserPatch } from "@/api/schema";

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
