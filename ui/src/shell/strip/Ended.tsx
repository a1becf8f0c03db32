// What has just been done, held for a moment. How it ended is asked for, not guessed: an operation also leaves the list
// when it was cancelled or superseded, and then nothing is shown.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { operation } from "@/api/queries";
import { IconButton } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { isCelebrated } from "@/shell/strip/pick";
import { called, detail, hasEnded, subject, took, verb } from "@/text/operation";

const HELD_MS = 4000;

export function Ended({ id, onGone }: { id: string; onGone: () => void }) {
  const { data, error } = useQuery(operation(id));
  const gone = useRef(onGone);
  gone.current = onGone;
  const state = data?.state ?? "";
  const isShown = isCelebrated(state);
  const isOver = error !== null || (hasEnded(state) && !isShown);

  useEffect(() => {
    if (isOver) gone.current();
    if (!isShown) return;
    const timer = window.setTimeout(() => gone.current(), HELD_MS);
    return () => window.clearTimeout(timer);
  }, [isOver, isShown]);

  if (!data || !isShown) return null;
  const isOwed = state !== "completed";
  const time = took(data);
  const told = isOwed ? detail(data) : time && `in ${time}`;
  return (
    <section className={isOwed ? "strip owed" : "strip done"} aria-label="Operations under way">
      <Icon name="check" />
      <Link className="strip-what" to="/operations" search={{ operation: id }}>
        <span className="strip-verb">{verb(data)}</span> <strong>{subject(data)}</strong>
      </Link>
      <span className="strip-detail cut">{told}</span>
      <IconButton icon="cross" label={`Hide the ${called(data)} here`} onClick={onGone} />
      <span className="unseen" role="status">
        {verb(data)} {subject(data)}
      </span>
    </section>
  );
}
