// Buttons, and links that look like one. A busy button keeps its width and cannot be pressed again.
import type { ButtonHTMLAttributes, ReactNode } from "react";
import { Icon, type IconName } from "@/kit/icons";

type ButtonKind = "plain" | "primary" | "danger" | "quiet";

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "children"> {
  kind?: ButtonKind;
  icon?: IconName;
  busy?: boolean;
  small?: boolean;
  children: ReactNode;
}

export function Button({
  kind = "plain",
  icon,
  busy = false,
  small = false,
  children,
  ...rest
}: ButtonProps) {
  const name = `button ${kind}${small ? " small-button" : ""}`;
  return (
    <button
      type="button"
      {...rest}
      className={name}
      disabled={rest.disabled || busy}
      aria-busy={busy || undefined}
    >
      {icon && <Icon name={icon} />}
      <span>{children}</span>
    </button>
  );
}

/** A button with an icon only; `label` is its accessible name. */
export function IconButton({
  icon,
  label,
  ...rest
}: { icon: IconName; label: string } & ButtonHTMLAttributes<HTMLButtonElement>) {
  return (
    <button type="button" {...rest} className="button quiet icon-button" aria-label={label} title={label}>
      <Icon name={icon} />
    </button>
  );
}
