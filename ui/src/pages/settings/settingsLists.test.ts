import { expect, test } from "vitest";
import type { GalleryOut, SettingOut, TokenOut } from "@/api/schema";
import {
  filterTokens,
  galleryState,
  groupSettings,
  isChangeable,
  makeVariableName,
  usesWords,
  valueWords,
} from "./settingsLists";

const setting = (name: string, more: Partial<SettingOut> = {}): SettingOut => ({
  name,
  value: "30s",
  source: "default",
  section: "nodes",
  sentence: "How long a lease is.",
  is_secret: false,
  is_live: false,
  ...more,
});
const gallery = (more: Partial<GalleryOut>): GalleryOut => ({
  name: "own",
  url: "http://gallery",
  entries: 3,
  fetched_at: "2026-11-15T00:00:00Z",
  problem: "",
  ...more,
});
const token = (name: string, state: string, created_at: string): TokenOut => ({
  id: name,
  name,
  prefix: "cj_1234",
  uses: 1,
  max_uses: 2,
  approves: false,
  expires_at: null,
  revoked_at: null,
  created_at,
  created_by: "admin",
  state,
});

test("a live setting can be changed unless the frontend was given it at its start", () => {
  const live = (source: string) => setting("request_wait", { is_live: true, source });
  expect(isChangeable(live("default"))).toBe(true);
  expect(isChangeable(live("cluster, changed by ann"))).toBe(true);
  expect(isChangeable(live("environment CORRAL_REQUEST_WAIT"))).toBe(false);
  expect(isChangeable(setting("node_lease"))).toBe(false);
});

test("settings stay in their sections, and a word finds them by what they do", () => {
  const all = [
    setting("node_lease"),
    setting("port", { section: "http", source: "environment CORRAL_PORT" }),
  ];
  expect(groupSettings(all, "", false).map((section) => section.name)).toEqual(["nodes", "http"]);
  expect(groupSettings(all, "LEASE", false)[0]?.settings).toHaveLength(1);
  expect(groupSettings(all, "", true).map((section) => section.name)).toEqual(["http"]);
});

test("a secret is never shown, and an absent value is shown as not set", () => {
  expect(valueWords(setting("admin_key", { is_secret: true, value: "***" }))).toBe("set, not shown");
  expect(valueWords(setting("admin_key", { is_secret: true, value: null }))).toBe("not set");
  expect(valueWords(setting("public_url", { value: null }))).toBe("not set");
  expect(makeVariableName(setting("node_lease"))).toBe("CORRAL_NODE_LEASE");
});

test("a gallery that failed says whether an older copy serves", () => {
  expect(galleryState(gallery({ problem: "no answer" })).tone).toBe("warn");
  expect(galleryState(gallery({ problem: "no answer", entries: 0 })).tone).toBe("bad");
  expect(galleryState(gallery({ url: "" })).words).toBe("built in");
  expect(galleryState(gallery({ fetched_at: null })).words).toBe("not fetched yet");
});

test("tokens that work come first, the others only on demand", () => {
  const all = [
    token("old", "active", "2026-11-01"),
    token("gone", "revoked", "2026-11-03"),
    token("new", "active", "2026-11-02"),
  ];
  expect(filterTokens(all, false).map((one) => one.name)).toEqual(["new", "old"]);
  expect(filterTokens(all, true).map((one) => one.name)).toEqual(["new", "old", "gone"]);
  expect(usesWords(token("a", "active", ""))).toBe("1 of 2");
});
