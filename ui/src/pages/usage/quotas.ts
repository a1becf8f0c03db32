// Computes how much of a key's daily and monthly quotas is used. Limits per minute are only in response headers.
import type { LimitOut, UsageRowOut } from "@/api/schema";

interface Quota {
  model: string;
  period: "day" | "month";
  limit: number;
  used: number;
}

interface RateLimit {
  model: string;
  words: string;
  limit: number;
}

export function computeMonthStart(now: number): string {
  const date = new Date(now);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)).toISOString();
}

/** `rows` are by model and day, of this month. */
export function listQuotas(limits: LimitOut[], rows: UsageRowOut[], now: number): Quota[] {
  const today = new Date(now).toISOString().slice(0, 10);
  const used = (model: string, onlyToday: boolean) =>
    rows
      .filter((row) => model === "" || row.model === model)
      .filter((row) => !onlyToday || row.at?.slice(0, 10) === today)
      .reduce((sum, row) => sum + row.prompt_tokens + row.completion_tokens, 0);
  return limits.flatMap((limit) => {
    const model = limit.model ?? "";
    const found: Quota[] = [];
    if (limit.tokens_per_day != null)
      found.push({ model, period: "day", limit: limit.tokens_per_day, used: used(model, true) });
    if (limit.tokens_per_month != null)
      found.push({ model, period: "month", limit: limit.tokens_per_month, used: used(model, false) });
    return found;
  });
}

export function listRateLimits(limits: LimitOut[]): RateLimit[] {
  return limits.flatMap((limit) => {
    const model = limit.model ?? "";
    const found: RateLimit[] = [];
    if (limit.requests_per_minute != null)
      found.push({ model, words: "requests per minute", limit: limit.requests_per_minute });
    if (limit.tokens_per_minute != null)
      found.push({ model, words: "tokens per minute", limit: limit.tokens_per_minute });
    return found;
  });
}
