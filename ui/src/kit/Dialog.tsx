// Dialogs on the browser's own element: it keeps the focus inside and gives it back, and Escape closes.
import { type ReactNode, useId, useLayoutEffect, useRef } from "react";
import { IconButton } from "@/kit/Button";

const FIELDS = ".stack :is(input, select, textarea):not(:disabled)";

interface DialogProps {
  title: string;
  onClose: () => void;
  wide?: boolean;
  /** Buttons at the bottom; the last one confirms. */
  actions?: ReactNode;
  children: ReactNode;
}

/** A dialog that is open as long as it is rendered. */
export function Dialog({ title, onClose, wide = false, actions, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // Close it before it leaves the page: only a dialog that is still in the document gives the focus back.
  useLayoutEffect(() => {
    const dialog = element.current;
    if (dialog && !dialog.open) {
      dialog.showModal();
      // A dialog with fields puts the focus into the first field, not onto the button that closes it.
      dialog.querySelector<HTMLElement>(FIELDS)?.focus();
    }
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      className={wide ? "dialog wide" : "dialog"}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header className="row apart">
        <h2 id={heading}>{title}</h2>
        <IconButton icon="cross" label="Close" onClick={onClose} />
      </header>
      <div className="stack">{children}</div>
      {actions && <footer className="row">{actions}</footer>}
    </dialog>
  );
}
