// The operation that has just ended, shown for a moment. Its outcome is queried, not guessed: an operation also leaves
// the list when it was cancelled or superseded, and then nothing is shown.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { operation } from "@/api/queries";
import { IconButton } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { isCompleted } from "@/shell/strip/stripContent";
import { describeDetail, describeDuration, describeVerb, nameForActions, subject } from "@/text/operation";
import { isSettled } from "@/text/operationStates";

const SHOWN_MS = 4000;

export function EndedOperation({ id, onGone }: { id: string; onGone: () => void }) {
  const { data, error } = useQuery(operation(id));
  const onGoneRef = useRef(onGone);
  onGoneRef.current = onGone;
  const state = data?.state ?? "";
  const isShown = isCompleted(state);
  const hasNothingToShow = error !== null || (isSettled(state) && !isShown);

  useEffect(() => {
    if (hasNothingToShow) onGoneRef.current();
    if (!isShown) return;
    const timer = window.setTimeout(() => onGoneRef.current(), SHOWN_MS);
    return () => window.clearTimeout(timer);
  }, [hasNothingToShow, isShown]);

  if (!data || !isShown) return null;
  const hasPendingChanges = state !== "completed";
  const time = describeDuration(data);
  const detail = hasPendingChanges ? describeDetail(data) : time && `in ${time}`;
  return (
    <section className={hasPendingChanges ? "strip pending" : "strip done"} aria-label="Active operations">
      <Icon name="check" />
      <Link className="strip-what" to="/operations" search={{ operation: id }}>
        <span className="strip-verb">{describeVerb(data)}</span> <strong>{subject(data)}</strong>
      </Link>
      <span className="strip-detail cut">{detail}</span>
      <IconButton icon="cross" label={`Hide the ${nameForActions(data)} here`} onClick={onGone} />
      <span className="unseen" role="status">
        {describeVerb(data)} {subject(data)}
      </span>
    </section>
  );
}
