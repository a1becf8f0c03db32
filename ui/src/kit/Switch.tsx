// A switch that takes effect at once, without a form that is sent.

interface SwitchProps {
  /** The accessible name: "Enable weather". */
  label: string;
  isOn: boolean;
  disabled?: boolean;
  onChange: (isOn: boolean) => void;
}

export function Switch({ label, isOn, disabled = false, onChange }: SwitchProps) {
  return (
    <input
      type="checkbox"
      role="switch"
      className="switch"
      aria-label={label}
      aria-checked={isOn}
      checked={isOn}
      disabled={disabled}
      onChange={(event) => onChange(event.target.checked)}
    />
  );
}
