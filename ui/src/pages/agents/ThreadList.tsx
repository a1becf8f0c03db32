// The caller's threads with an agent, the one used last first.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { ThreadOut } from "@/api/schema";
import { IconButton } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Icon } from "@/kit/icons";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { useToast } from "@/kit/toasts";
import { deleteThread, THREADS_SHOWN, threadsQuery } from "@/pages/agents/calls";

interface ThreadListProps {
  agent: string;
  chosen: string | undefined;
  onDeleted: (thread: string) => void;
}

export const nameThread = ({ title }: Pick<ThreadOut, "title">): string => title || "Untitled thread";

export function ThreadList({ agent, chosen, onDeleted }: ThreadListProps) {
  const query = useQuery(threadsQuery(agent));
  const cache = useQueryClient();
  const toast = useToast();
  const [removed, setRemoved] = useState<ThreadOut | null>(null);
  return (
    <nav className="chat-threads" aria-label="Threads">
      <Link
        className="button plain"
        to="."
        search={(before) => ({ ...before, thread: undefined })}
        aria-current={chosen === undefined ? "page" : undefined}
      >
        <Icon name="plus" />
        <span>New thread</span>
      </Link>
      <QueryView query={query}>
        {(threads) => (
          <>
            {threads.length === 0 && <p className="small soft">No threads yet.</p>}
            <ul className="plain chat-thread-list" aria-label="Threads">
              {threads.map((thread) => (
                <li key={thread.id} className={thread.id === chosen ? "chosen" : undefined}>
                  <Link
                    className="chat-thread"
                    to="."
                    search={(before) => ({ ...before, thread: thread.id })}
                    aria-current={thread.id === chosen ? "page" : undefined}
                  >
                    <span className="cut">{nameThread(thread)}</span>
                    <span className="small faint">
                      <RelativeTime at={thread.updated_at} />
                    </span>
                  </Link>
                  <IconButton
                    icon="trash"
                    label={`Delete the thread ${nameThread(thread)}`}
                    onClick={() => setRemoved(thread)}
                  />
                </li>
              ))}
            </ul>
            {threads.length >= THREADS_SHOWN && (
              <p className="small soft">{`The ${THREADS_SHOWN} threads used last. Delete some to see older ones.`}</p>
            )}
          </>
        )}
      </QueryView>
      {removed && (
        <ConfirmDialog
          title="Delete this thread?"
          verb="Delete the thread"
          onConfirm={async () => {
            await deleteThread(agent, removed.id);
            toast("Deleted the thread.");
            onDeleted(removed.id);
            void cache.invalidateQueries({ queryKey: ["agents", "threads", agent] });
          }}
          onClose={() => setRemoved(null)}
        >
          <p>
            Deletes “{nameThread(removed)}” with its messages, and cancels its turns. This cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </nav>
  );
}
