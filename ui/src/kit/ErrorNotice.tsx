// Shows an error beside the control that failed: its message, its hint, and a button to retry if that makes sense.
import { asProblem } from "@/api/client";
import { Button } from "@/kit/Button";
import { Icon } from "@/kit/icons";

export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  if (!error) return null;
  const problem = asProblem(error);
  return (
    <div className="trouble" role="alert">
      <Icon name="warn" />
      <div>
        <p>{problem.message}</p>
        {problem.hint && <p className="small">{problem.hint}</p>}
      </div>
      {onRetry && (
        <Button small onClick={onRetry}>
          Retry
        </Button>
      )}
    </div>
  );
}
