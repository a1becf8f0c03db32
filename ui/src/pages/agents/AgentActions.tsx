// What can be done with an agent: pause, resume, copy, export, delete. Shown in its row and on its page.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { asProblem } from "@/api/client";
import type { AgentOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { type DownloadItem, Menu, type MenuItem } from "@/kit/Menu";
import { useToast } from "@/kit/toasts";
import { cloneAgent, deleteAgent, exportAddress, pauseAgent, resumeAgent } from "@/pages/agents/calls";
import { canEdit, keyOf } from "@/pages/agents/words";
import { useHasScope } from "@/shell/me";

interface AgentActionsProps {
  agent: AgentOut;
  /** Called after the agent was deleted. */
  onDeleted?: () => void;
}

export function AgentActions({ agent, onDeleted }: AgentActionsProps) {
  const isAdmin = useHasScope("admin");
  const cache = useQueryClient();
  const toast = useToast();
  const [dialog, setDialog] = useState<"clone" | "delete" | null>(null);
  const close = () => setDialog(null);
  const key = keyOf(agent);
  const isPaused = agent.status === "paused";
  const refresh = () => void cache.invalidateQueries({ queryKey: ["agents"] });
  const onError = (error: unknown) => toast(asProblem(error).message, "bad");
  const setPaused = useMutation({
    mutationFn: () => (isPaused ? resumeAgent(key) : pauseAgent(key)),
    onSuccess: () => toast(isPaused ? `Resumed ${agent.name}.` : `Paused ${agent.name}.`),
    onError,
    onSettled: refresh,
  });
  const copy: MenuItem = { label: "Clone", icon: "copy", onSelect: () => setDialog("clone") };
  const download: DownloadItem = { label: "Export", icon: "download", href: exportAddress(key) };
  const items: (MenuItem | DownloadItem)[] = canEdit(agent, isAdmin)
    ? [
        {
          label: isPaused ? "Resume" : "Pause",
          icon: isPaused ? "play" : "pause",
          onSelect: () => setPaused.mutate(),
        },
        copy,
        download,
        { label: "Delete", icon: "trash", danger: true, onSelect: () => setDialog("delete") },
      ]
    : [copy, download];
  return (
    <>
      <Menu label={`Actions for ${agent.name}`} items={items} />
      {dialog === "clone" && <CloneDialog agent={agent} onClose={close} />}
      {dialog === "delete" && (
        <ConfirmDialog
          title={`Delete ${agent.name}?`}
          verb={`Delete ${agent.name}`}
          onConfirm={async () => {
            await deleteAgent(key);
            toast(`Deleted ${agent.name}.`);
            onDeleted?.();
            refresh();
          }}
          onClose={close}
        >
          <p>
            Deletes the agent with the threads of everybody who talks to it, and cancels its turns. Its runs
            stay until they expire. This cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}

function CloneDialog({ agent, onClose }: { agent: AgentOut; onClose: () => void }) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const [name, setName] = useState("");
  const clone = useMutation({
    mutationFn: () => cloneAgent(keyOf(agent), name.trim()),
    onSuccess: (made) => {
      toast(`Created ${made.name}.`);
      void cache.invalidateQueries({ queryKey: ["agents"] });
      onClose();
      void navigate({ to: "/agents/$agent", params: { agent: made.name }, search: { tab: "configuration" } });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    clone.mutate();
  };
  return (
    <Dialog title={`Clone ${agent.name}`} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <TextField
          label="Name of the copy"
          hint="It is your own and not shared. Threads are not copied."
          placeholder={`${agent.name}-copy`}
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <ErrorNotice error={clone.error} />
        <div className="row agents-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={clone.isPending}>
            Clone
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
