// The list of the caller's batches, newest first.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { BatchOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { useToast } from "@/kit/toasts";
import { BatchRow } from "@/pages/batches/BatchRow";
import { batchesQuery, cancelBatch, filesQuery } from "@/pages/batches/queries";
import { StartBatchDialog } from "@/pages/batches/StartBatchDialog";
import { nameBatch } from "@/pages/batches/words";
import { TaskTabs } from "@/pages/tasks/TaskTabs";
import { useHasScope } from "@/shell/me";
import { usePageName } from "@/shell/pageName";
import "@/pages/batches/batches.css";

type BatchAction = { kind: "start" } | { kind: "cancel"; batch: BatchOut };

export default function Batches() {
  const hasStream = useHasScope("operate");
  const query = useInfiniteQuery(batchesQuery(hasStream));
  const { data: files = [] } = useQuery(filesQuery(hasStream));
  const [dialog, setDialog] = useState<BatchAction | null>(null);
  const close = () => setDialog(null);
  usePageName("Batches");
  return (
    <>
      <PageHeader
        title="Batches"
        note="Files of requests that are answered in the background within a day, behind all other traffic."
      >
        <Button kind="primary" icon="plus" onClick={() => setDialog({ kind: "start" })}>
          Start a batch
        </Button>
      </PageHeader>
      <TaskTabs />
      <div className="stack">
        <QueryView query={query}>
          {({ pages }) => {
            const batches = pages.flatMap((page) => page.data);
            if (batches.length === 0) return <NoBatches onStart={() => setDialog({ kind: "start" })} />;
            return (
              <ul className="plain batches-list" aria-label="Batches">
                {batches.map((batch) => (
                  <BatchRow
                    key={batch.id}
                    batch={batch}
                    name={nameBatch(batch, files)}
                    onCancel={() => setDialog({ kind: "cancel", batch })}
                  />
                ))}
              </ul>
            );
          }}
        </QueryView>
        {query.hasNextPage && (
          <div>
            <Button small busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              Load more
            </Button>
          </div>
        )}
      </div>
      {dialog?.kind === "start" && <StartBatchDialog onClose={close} />}
      {dialog?.kind === "cancel" && (
        <CancelDialog batch={dialog.batch} name={nameBatch(dialog.batch, files)} onClose={close} />
      )}
    </>
  );
}

function CancelDialog({ batch, name, onClose }: { batch: BatchOut; name: string; onClose: () => void }) {
  const cache = useQueryClient();
  const toast = useToast();
  return (
    <ConfirmDialog
      title={`Cancel the batch of ${name}?`}
      verb="Cancel the batch"
      dismissLabel="Back"
      onConfirm={async () => {
        await cancelBatch(batch.id);
        toast(`Cancelled the batch of ${name}.`);
        await cache.invalidateQueries({ queryKey: ["runs"] });
      }}
      onClose={onClose}
    >
      <p>Requests that are not answered yet are not sent. You can download the answers so far.</p>
    </ConfirmDialog>
  );
}

function NoBatches({ onStart }: { onStart: () => void }) {
  return (
    <EmptyState title="You have no batches yet.">
      <p>
        A batch is a file with one request in JSON on each line. Upload one, and download the answers when the
        batch has ended.
      </p>
      <p className="row batches-begin">
        <Button icon="plus" onClick={onStart}>
          Start your first batch
        </Button>
      </p>
    </EmptyState>
  );
}
