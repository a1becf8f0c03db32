// Keys and users: what is read, and what can be done.
import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/api/client";
import type { KeyIn, KeyPatch, UserIn, UserPatch } from "@/api/schema";

export const keys = queryOptions({
  queryKey: ["keys"] as const,
  queryFn: () => answer(api.GET("/api/keys")),
});

export const users = queryOptions({
  queryKey: ["users"] as const,
  queryFn: () => answer(api.GET("/api/users")),
});

const key = (key_id: string) => ({ params: { path: { key_id } } });
const user = (user_id: string) => ({ params: { path: { user_id } } });

export const makeKey = (body: KeyIn) => answer(api.POST("/api/keys", { body }));
export const changeKey = (id: string, body: KeyPatch) =>
  answer(api.PATCH("/api/keys/{key_id}", { ...key(id), body }));
export const rotateKey = (id: string, grace_s: number | null) =>
  answer(api.POST("/api/keys/{key_id}/rotate", { ...key(id), body: { grace_s } }));
/** `last`: also if no other admin key works. */
export const revokeKey = (id: string, last: boolean) =>
  answer(api.DELETE("/api/keys/{key_id}", { params: { path: { key_id: id }, query: { last } } }));

export const makeUser = (body: UserIn) => answer(api.POST("/api/users", { body }));
export const changeUser = (id: string, body: UserPatch) =>
  answer(api.PATCH("/api/users/{user_id}", { ...user(id), body }));
export const removeUser = (id: string) => answer(api.DELETE("/api/users/{user_id}", user(id)));
