import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `npm run dev` shows the page of a cluster that runs here: CORRAL=http://127.0.0.1:8080 npm run dev
const cluster = process.env.CORRAL ?? "http://127.0.0.1:8080";
// With a key of it, nobody has to log in: CORRAL_KEY=ck_… npm run dev
const headers: Record<string, string> = process.env.CORRAL_KEY
  ? { authorization: `Bearer ${process.env.CORRAL_KEY}` }
  : {};
const proxied = { target: cluster, headers };

export default defineConfig({
  base: "/app/",
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: process.env.PAGE_OUT ?? "../src/corral/api/page/built",
    emptyOutDir: true,
    target: "es2022",
    // Nothing inside the page itself: its policy allows files of its own only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": proxied, "/v1": proxied, "/backends": proxied, "/models": proxied } },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
