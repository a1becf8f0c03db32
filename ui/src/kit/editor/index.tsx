// A text editor with colours and line numbers. Its script is fetched when it is first shown.
import { lazy, Suspense } from "react";
import type { EditorProps } from "@/kit/editor/Editor";
import { LoadingLines } from "@/kit/QueryView";

const LazyEditor = lazy(() => import("@/kit/editor/Editor"));

export function Editor(props: EditorProps) {
  return (
    <Suspense fallback={<LoadingLines lines={8} />}>
      <LazyEditor {...props} />
    </Suspense>
  );
}
