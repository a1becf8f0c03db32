// Short messages at the edge of the screen, announced to screen readers too. An error belongs beside the control that
// failed, not here.
import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from "react";
import { Button, IconButton } from "@/kit/Button";
import type { Tone } from "@/kit/status";

interface ToastAction {
  label: string;
  onClick: () => void;
}
interface Toast {
  id: number;
  text: string;
  tone: Tone;
  action: ToastAction | undefined;
}
type ShowToast = (text: string, tone?: Tone, action?: ToastAction) => void;

const SHOWN_MS = 6000;
/** A message with an undo button stays longer, because the user has to read it first. */
const SHOWN_WITH_ACTION_MS = 15_000;
const SHOWN_MAX = 4;
const Context = createContext<ShowToast>(() => {});

export const useToast = (): ShowToast => useContext(Context);

export function ToastProvider({ children }: { children: ReactNode }) {
  const [shown, setShown] = useState<Toast[]>([]);
  const last = useRef(0);
  const drop = useCallback(
    (id: number) => setShown((toasts) => toasts.filter((toast) => toast.id !== id)),
    [],
  );
  const showToast = useCallback<ShowToast>(
    (text, tone = "good", action) => {
      last.current += 1;
      const id = last.current;
      setShown((toasts) => [...toasts, { id, text, tone, action }].slice(-SHOWN_MAX));
      window.setTimeout(() => drop(id), action ? SHOWN_WITH_ACTION_MS : SHOWN_MS);
    },
    [drop],
  );
  return (
    <Context.Provider value={showToast}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {shown.map((toast) => (
          <div key={toast.id} className={`toast ${toast.tone}`}>
            <span>{toast.text}</span>
            {toast.action && (
              <Button
                small
                onClick={() => {
                  toast.action?.onClick();
                  drop(toast.id);
                }}
              >
                {toast.action.label}
              </Button>
            )}
            <IconButton icon="cross" label="Hide" onClick={() => drop(toast.id)} />
          </div>
        ))}
      </div>
    </Context.Provider>
  );
}
