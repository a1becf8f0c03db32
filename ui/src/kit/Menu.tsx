// A button with a list of actions. Arrows move, Escape closes and gives the focus back.
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Icon, type IconName } from "@/kit/icons";
import { computeNextFocusIndex } from "@/kit/rovingFocus";

export interface MenuItem {
  label: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  onSelect: () => void;
}

/** An item that saves a file of the server: a plain link, which the browser follows by itself. */
export interface DownloadItem {
  label: string;
  icon?: IconName;
  href: string;
}

interface MenuProps {
  /** The accessible name of the button: "Actions for gpu-a". */
  label: string;
  /** What the button shows; three dots by default. */
  children?: ReactNode;
  items: (MenuItem | DownloadItem)[];
}

export function Menu({ label, children, items }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();

  useEffect(() => {
    if (!isOpen) return;
    entries(box.current)[0]?.focus();
    const leave = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", leave);
    return () => document.removeEventListener("pointerdown", leave);
  }, [isOpen]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const all = entries(box.current);
    const place = all.indexOf(document.activeElement as HTMLElement);
    const to = computeNextFocusIndex(place, event.key, all.length, "down");
    if (event.key === "Escape" && isOpen) {
      event.stopPropagation();
      close();
    } else if (event.key === "Tab") {
      setOpen(false);
    } else if (to !== null && isOpen) {
      event.preventDefault();
      all[to]?.focus();
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys belong to the buttons inside
    <div className="menu" ref={box} onKeyDown={onKeyDown}>
      <button
        ref={button}
        type="button"
        className={children ? "button plain" : "button quiet icon-button"}
        aria-label={children ? undefined : label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => setOpen(!isOpen)}
      >
        {children ?? <Icon name="more" />}
        {children && <Icon name="down" />}
      </button>
      {isOpen && (
        <div className="menu-list" role="menu" id={id} aria-label={label}>
          {items.map((item) =>
            "href" in item ? (
              <a key={item.label} role="menuitem" href={item.href} download onClick={close}>
                {item.icon && <Icon name={item.icon} />}
                {item.label}
              </a>
            ) : (
              <button
                key={item.label}
                type="button"
                role="menuitem"
                className={item.danger ? "danger" : undefined}
                disabled={item.disabled}
                onClick={() => {
                  close();
                  item.onSelect();
                }}
              >
                {item.icon && <Icon name={item.icon} />}
                {item.label}
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}

function entries(box: HTMLElement | null): HTMLElement[] {
  return [...(box?.querySelectorAll<HTMLElement>('[role="menuitem"]:not(:disabled)') ?? [])];
}
