// Bars: how far something is (Progress), and how full something is (Meter).
import type { Tone } from "@/kit/status";

interface ProgressProps {
  /** 0 to 100; null while the progress is unknown. */
  value: number | null;
  label: string;
  tone?: Tone;
}

export function Progress({ value, label, tone = "busy" }: ProgressProps) {
  const known = value == null ? {} : { "aria-valuenow": Math.floor(value) };
  return (
    <div
      className={`progress ${tone}`}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      {...known}
    >
      <div
        className={value == null ? "fill unknown" : "fill"}
        style={value == null ? undefined : { transform: `scaleX(${value / 100})` }}
      />
    </div>
  );
}

interface MeterProps {
  used: number | null | undefined;
  total: number | null | undefined;
  /** The reserved amount, drawn after the used one. */
  reserved?: number;
  label: string;
  text: string;
}

const NEARLY_FULL = 0.9;

export function Meter({ used, total, reserved = 0, label, text }: MeterProps) {
  const known = used != null && total != null && total > 0;
  const part = known ? Math.min(1, used / total) : 0;
  const promised = known ? Math.min(1 - part, reserved / total) : 0;
  return (
    <div className="meter">
      <div className="row apart small">
        <span className="soft">{label}</span>
        <span className="number">{text}</span>
      </div>
      <div
        className={`gauge ${part + promised > NEARLY_FULL ? "full" : ""}`}
        role="meter"
        aria-label={label}
        aria-valuetext={text}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(part * 100)}
      >
        <div className="fill" style={{ width: `${part * 100}%` }} />
        <div className="promised" style={{ width: `${promised * 100}%` }} />
      </div>
    </div>
  );
}
