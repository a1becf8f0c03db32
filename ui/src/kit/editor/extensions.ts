// The extensions of the editor: YAML, history, our colours, and the mark of a line.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Extension, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  WidgetType,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface MarkedLine {
  /** The line number, from 1. */
  line: number;
  sentence: string;
}

interface Handlers {
  onChange: (text: string) => void;
  onSave: () => void;
}

export const markLine = StateEffect.define<MarkedLine | null>();

class Sentence extends WidgetType {
  constructor(readonly sentence: string) {
    super();
  }

  override eq(other: Sentence): boolean {
    return other.sentence === this.sentence;
  }

  override toDOM(): HTMLElement {
    const element = document.createElement("div");
    element.className = "cm-problem";
    element.textContent = this.sentence;
    return element;
  }
}

/** The mark moves with its line, and is removed when that line is edited. */
const marked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(decorations, transaction) {
    let present = decorations.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(markLine)) continue;
      present = Decoration.none;
      const found = effect.value;
      if (!found || found.line > transaction.state.doc.lines) continue;
      const line = transaction.state.doc.line(found.line);
      present = Decoration.set([
        Decoration.line({ class: "cm-marked" }).range(line.from),
        Decoration.widget({ widget: new Sentence(found.sentence), block: true, side: 1 }).range(line.to),
      ]);
    }
    return present;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const highlight = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.keyword], color: "var(--busy)" },
  { tag: [tags.comment, tags.meta], color: "var(--ink-faint)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

const theme = EditorView.theme({
  "&": {
    color: "var(--ink)",
    backgroundColor: "var(--paper)",
    border: "1px solid var(--line-strong)",
    borderRadius: "var(--radius)",
    fontSize: "13.5px",
    maxHeight: "min(64vh, 620px)",
  },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", minHeight: "220px", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  ".cm-gutters": {
    color: "var(--ink-faint)",
    backgroundColor: "var(--sunk)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": {
    backgroundColor: "color-mix(in srgb, var(--accent-soft) 45%, transparent)",
  },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--busy-soft)",
  },
  ".cm-marked": { backgroundColor: "var(--bad-soft)" },
  ".cm-problem": {
    padding: "4px 12px",
    color: "var(--bad)",
    backgroundColor: "var(--bad-soft)",
    borderLeft: "3px solid var(--bad)",
    fontFamily: "var(--text)",
    whiteSpace: "normal",
  },
});

/** Replaces a selection ourselves: the browser would keep the old text's style in a style attribute, which the
 * page's policy forbids. */
const overSelection = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const isTyped = event.inputType === "insertText" && event.data !== null && !event.isComposing;
    if (!isTyped || view.state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch({ ...view.state.replaceSelection(event.data ?? ""), userEvent: "input.type" });
    return true;
  },
});

export function extensions(label: string, handlers: Handlers): Extension[] {
  return [
    lineNumbers(),
    history(),
    drawSelection(),
    highlightActiveLine(),
    bracketMatching(),
    indentUnit.of("  "),
    yaml(),
    syntaxHighlighting(highlight),
    theme,
    marked,
    overSelection,
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off" }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) handlers.onChange(update.state.doc.toString());
    }),
    keymap.of([
      {
        key: "Mod-s",
        preventDefault: true,
        run: () => {
          handlers.onSave();
          return true;
        },
      },
      indentWithTab,
      ...defaultKeymap,
      ...historyKeymap,
    ]),
  ];
}
