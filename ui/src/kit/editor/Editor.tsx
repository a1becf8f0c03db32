// CodeMirror inside a shadow root: there it puts its styles into sheets of its own instead of style elements, which the
// page's policy forbids. The editor owns its text; to replace it, give the component another `key`.
import { EditorState, type StateEffect } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { extensions, type MarkedLine, markLine } from "@/kit/editor/extensions";

export interface EditorProps {
  label: string;
  /** The initial text. */
  text: string;
  onChange: (text: string) => void;
  /** Called on Ctrl-S and Command-S. */
  onSave?: () => void;
  /** A line with an error: it is marked and scrolled into view. */
  problem?: MarkedLine | null;
}

export default function Editor({ label, text, onChange, onSave, problem = null }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const handlers = useRef({ onChange, onSave });
  handlers.current = { onChange, onSave };
  const first = useRef({ label, text });

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const made = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: first.current.text,
        extensions: extensions(first.current.label, {
          onChange: (changed) => handlers.current.onChange(changed),
          onSave: () => handlers.current.onSave?.(),
        }),
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    const made = view.current;
    if (!made) return;
    const effects: StateEffect<unknown>[] = [markLine.of(problem)];
    if (problem && problem.line <= made.state.doc.lines) {
      const { from } = made.state.doc.line(problem.line);
      effects.push(EditorView.scrollIntoView(from, { y: "center" }));
    }
    made.dispatch({ effects });
  }, [problem]);

  return (
    <div className="editor">
      <div className="editor-host" ref={host} />
      <p className="small faint">Tab indents. To leave with the keyboard, press Escape, then Tab.</p>
    </div>
  );
}
