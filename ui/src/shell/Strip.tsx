// One line at the top of every page: the operation that most needs a look.
import { useQuery } from "@tanstack/react-query";
import { operations } from "@/api/queries";

export function Strip() {
  return null;
}

/** How many operations are under way, or have failed. */
export function Badge() {
  const { data } = useQuery(operations);
  const failed = data?.filter((operation) => operation.state === "failed").length ?? 0;
  const count = failed || (data?.length ?? 0);
  if (!count) return null;
  return (
    <span
      className={failed ? "badge bad" : "badge"}
      title={failed ? `${failed} failed` : `${count} under way`}
    >
      {count}
    </span>
  );
}
