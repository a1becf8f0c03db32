// The list of the caller's files, newest first: inputs and answers of batches, and what tools of runs have made.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ChangeEvent, useRef, useState } from "react";
import type { OpenAiFileOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { SearchField } from "@/kit/fields";
import { Menu } from "@/kit/Menu";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { contentAddress, deleteFile, FILES_MAX, filesQuery, uploadInput } from "@/pages/batches/queries";
import { StartBatchDialog } from "@/pages/batches/StartBatchDialog";
import { describePurpose, toMoment } from "@/pages/batches/words";
import { TaskTabs } from "@/pages/tasks/TaskTabs";
import { useHasScope } from "@/shell/me";
import { usePageName } from "@/shell/pageName";
import { usePageSearch } from "@/shell/usePageSearch";
import { bytes, formatCount, formatMoment } from "@/text/format";
import "@/pages/batches/batches.css";

type FileAction = { kind: "delete" | "start"; file: OpenAiFileOut };

export default function Files() {
  const [{ q = "" }, setSearch] = usePageSearch("/tasks/files");
  const query = useQuery(filesQuery(useHasScope("operate")));
  const [dialog, setDialog] = useState<FileAction | null>(null);
  const close = () => setDialog(null);
  usePageName("Files");
  return (
    <>
      <PageHeader
        title="Files"
        note="What you uploaded for batches, their answers, and what tools have made."
      >
        <UploadButton />
      </PageHeader>
      <TaskTabs />
      <div className="stack">
        <div className="row">
          <SearchField
            label="Search files"
            value={q}
            onChange={(term) => setSearch({ q: term || undefined }, true)}
          />
        </div>
        <QueryView query={query}>
          {(all) => {
            const term = q.trim().toLowerCase();
            const shown = all.filter((file) => file.filename.toLowerCase().includes(term));
            if (shown.length === 0)
              return all.length > 0 ? (
                <EmptyState title="No files match this search.">
                  <Button small onClick={() => setSearch({ q: undefined })}>
                    Clear search
                  </Button>
                </EmptyState>
              ) : (
                <EmptyState title="You have no files yet.">
                  <p>Upload the requests of a batch. Its answers are kept here, too.</p>
                </EmptyState>
              );
            return (
              <>
                <ul className="plain batches-list" aria-label="Files">
                  {shown.map((file) => (
                    <FileRow key={file.id} file={file} onAction={(kind) => setDialog({ kind, file })} />
                  ))}
                </ul>
                {all.length >= FILES_MAX && (
                  <p className="small soft">These are the newest {formatCount(FILES_MAX)} files.</p>
                )}
              </>
            );
          }}
        </QueryView>
      </div>
      {dialog?.kind === "start" && <StartBatchDialog fileId={dialog.file.id} onClose={close} />}
      {dialog?.kind === "delete" && <DeleteDialog file={dialog.file} onClose={close} />}
    </>
  );
}

function UploadButton() {
  const cache = useQueryClient();
  const toast = useToast();
  const input = useRef<HTMLInputElement>(null);
  const upload = useMutation({
    mutationFn: (file: File) => uploadInput(file, new AbortController().signal),
    onSuccess: (made) => toast(`Uploaded ${made.filename}.`),
    onSettled: () => cache.invalidateQueries({ queryKey: ["runs", "files"] }),
  });
  const pick = (event: ChangeEvent<HTMLInputElement>) => {
    const file = event.target.files?.[0];
    // The same file can be chosen again.
    event.target.value = "";
    if (file) upload.mutate(file);
  };
  return (
    <div className="stack tight">
      <input ref={input} type="file" hidden aria-label="File to upload" onChange={pick} />
      <Button kind="primary" icon="plus" busy={upload.isPending} onClick={() => input.current?.click()}>
        {upload.isPending ? `Uploading ${bytes(upload.variables.size)}` : "Upload a file"}
      </Button>
      <ErrorNotice error={upload.error} />
    </div>
  );
}

interface FileRowProps {
  file: OpenAiFileOut;
  onAction: (kind: FileAction["kind"]) => void;
}

function FileRow({ file, onAction }: FileRowProps) {
  const start = {
    label: "Start a batch",
    icon: "play",
    onSelect: () => onAction("start"),
  } as const;
  return (
    <li className="batches-row panel" aria-label={file.filename}>
      <div className="row apart">
        <span className="row batches-name">
          <a href={contentAddress(file.id)} download>
            {file.filename}
          </a>
          <Tag>{describePurpose(file.purpose)}</Tag>
        </span>
        <Menu
          label={`Actions for ${file.filename}`}
          items={[
            ...(file.purpose === "batch" ? [start] : []),
            { label: "Download", icon: "download", href: contentAddress(file.id) },
            { label: "Delete", icon: "trash", danger: true, onSelect: () => onAction("delete") },
          ]}
        />
      </div>
      <p className="small soft">
        {`${bytes(file.bytes)} · `}
        <RelativeTime at={toMoment(file.created_at)} />
        {file.expires_at != null && ` · kept until ${formatMoment(toMoment(file.expires_at))}`}
      </p>
    </li>
  );
}

function DeleteDialog({ file, onClose }: { file: OpenAiFileOut; onClose: () => void }) {
  const cache = useQueryClient();
  const toast = useToast();
  return (
    <ConfirmDialog
      title={`Delete ${file.filename}?`}
      verb="Delete the file"
      onConfirm={async () => {
        await deleteFile(file.id);
        toast(`Deleted ${file.filename}.`);
        await cache.invalidateQueries({ queryKey: ["runs", "files"] });
      }}
      onClose={onClose}
    >
      <p>Deletes the file for all who may read it. This cannot be undone.</p>
    </ConfirmDialog>
  );
}
