// A text editor with colours and line numbers. Its script is fetched when it is first shown.
import { lazy, Suspense } from "react";
import { Waiting } from "@/kit/Answered";
import type { EditorProps } from "@/kit/editor/Editor";

const Inner = lazy(() => import("@/kit/editor/Editor"));

export function Editor(props: EditorProps) {
  return (
    <Suspense fallback={<Waiting lines={8} />}>
      <Inner {...props} />
    </Suspense>
  );
}
