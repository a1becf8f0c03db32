// Icons, drawn on a grid of 16. They are hidden from screen readers, which read the word beside them.
import type { ReactNode } from "react";

const ICON_PATHS = {
  check: <path d="m3 8.5 3.2 3.2L13 4.8" />,
  cross: <path d="m4 4 8 8m0-8-8 8" />,
  warn: <path d="M8 2 1.8 13.2h12.4zM8 6.2v3.4m0 1.6v.6" />,
  info: <path d="M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zm0-3V7.2M8 5.4v-.6" />,
  down: <path d="m4 6 4 4 4-4" />,
  right: <path d="m6 4 4 4-4 4" />,
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.4" />,
  plus: <path d="M8 3v10M3 8h10" />,
  search: <path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zm3.6-1.4L14 14" />,
  copy: <path d="M5.5 5.5v-3h8v8h-3m-8-5h8v8h-8z" />,
  stop: <path d="M4.5 4.5h7v7h-7z" />,
  play: <path d="m5 3 8 5-8 5z" />,
  pause: <path d="M5.5 3.5v9m5-9v9" />,
  again: <path d="M13 8a5 5 0 1 1-1.5-3.6M13 2v3.2H9.8" />,
  trash: <path d="M3 4.5h10M6.5 4V2.5h3V4m-5 .5.6 9h5.8l.6-9" />,
  download: <path d="M8 2.5v8M4.5 7 8 10.5 11.5 7M3 13.5h10" />,
  up: <path d="M8 13V3.5M4 7l4-4 4 4" />,
  send: <path d="M2 8 14 2.5 11 14 8 9z" />,
  key: <path d="M5.5 13a3 3 0 1 0 0-6 3 3 0 0 0 0 6zm2.2-5.2L13 2.5m-2 2 1.8 1.8" />,
  menu: <path d="M2.5 4h11M2.5 8h11m-11 4h11" />,
  overview: <path d="M2.5 13.5v-5h3v5zm4-0v-11h3v11zm4 0v-8h3v8z" />,
  nodes: <path d="M2.5 3h11v4h-11zm0 6h11v4h-11zM5 5h.01M5 11h.01" />,
  backends: <path d="M8 2 14 5 8 8 2 5zM2 8l6 3 6-3M2 11l6 3 6-3" />,
  models: <path d="M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.5 5 8 8l5.5-3M8 8v6" />,
  operations: <path d="M1.5 8h3l2-5 3 10 2-5h3" />,
  agents: <path d="M3 6h10v7.5H3zM8 6V3M8 2.5h.01M1.5 9v2m13-2v2M6 9h.01M10 9h.01M6.5 11.2h3" />,
  playground: <path d="M2.5 3h11v8h-6L4 14v-3H2.5z" />,
  tasks: <path d="M2.5 3.5h3v3h-3zm0 6h3v3h-3zM8 5h5.5M8 11h5.5" />,
  usage: <path d="M2.5 13.5h11M4.5 13V8m3.5 5V3m3.5 10V6" />,
  settings: (
    <path d="M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM8 1.8v2m0 8.4v2M1.8 8h2m8.4 0h2M3.6 3.6 5 5m6 6 1.4 1.4m0-8.8L11 5m-6 6-1.4 1.4" />
  ),
  users: (
    <path d="M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zm-4.5 6c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4m.2-6a2.2 2.2 0 0 0 0-4.4m1 6.6c1.8.4 2.8 1.8 2.8 3.8" />
  ),
  sun: (
    <path d="M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zm0-9.5V3m0 10v1.5M1.5 8H3m10 0h1.5M3.4 3.4l1 1m7.2 7.2 1 1m0-9.2-1 1m-7.2 7.2-1 1" />
  ),
  moon: <path d="M13 9.8A5.6 5.6 0 0 1 6.2 3 5.6 5.6 0 1 0 13 9.8z" />,
  door: <path d="M9 2.5H3.5v11H9M7 8h7m-2.5-2.5L14 8l-2.5 2.5" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof ICON_PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true" focusable="false">
      {ICON_PATHS[name]}
    </svg>
  );
}
