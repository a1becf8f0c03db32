// The git repositories that skills come from: add, change, sync, enable, disable and delete them.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import type { SkillRepoOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Checkbox, TextField } from "@/kit/fields";
import { Menu } from "@/kit/Menu";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { AgentTabs } from "@/pages/agents/AgentTabs";
import {
  awaitsSync,
  deleteSkillRepo,
  enableSkillRepo,
  saveSkillRepo,
  skillReposQuery,
  syncSkillRepo,
} from "@/pages/skills/calls";
import { formatMinutes, makeRepoFields, type RepoFields } from "@/pages/skills/words";
import { useHasScope } from "@/shell/me";
import { usePageName } from "@/shell/pageName";
import { plural } from "@/text/format";
import "@/pages/skills/skills.css";

export default function SkillRepos() {
  const query = useQuery(skillReposQuery(useHasScope("operate")));
  // The repository that is changed; null: a new one; undefined: no dialog is open.
  const [edited, setEdited] = useState<SkillRepoOut | null | undefined>();
  const [deleted, setDeleted] = useState<SkillRepoOut | null>(null);
  usePageName("Repositories of skills");
  return (
    <>
      <PageHeader
        title="Repositories"
        note="Git repositories. Every folder with a SKILL.md becomes a read-only skill."
      >
        <Button kind="primary" icon="plus" onClick={() => setEdited(null)}>
          Add a repository
        </Button>
      </PageHeader>
      <AgentTabs />
      <QueryView query={query}>
        {(repos) =>
          repos.length === 0 ? (
            <EmptyState title="You have no repositories yet.">
              <p>Add one, and its skills are here after the first sync.</p>
            </EmptyState>
          ) : (
            <ul className="plain skills-list" aria-label="Repositories">
              {repos.map((repo) => (
                <RepoRow
                  key={repo.id}
                  repo={repo}
                  onEdit={() => setEdited(repo)}
                  onDelete={() => setDeleted(repo)}
                />
              ))}
            </ul>
          )
        }
      </QueryView>
      {edited !== undefined && <RepoDialog repo={edited} onClose={() => setEdited(undefined)} />}
      {deleted && <DeleteDialog repo={deleted} onClose={() => setDeleted(null)} />}
    </>
  );
}

interface RepoRowProps {
  repo: SkillRepoOut;
  onEdit: () => void;
  onDelete: () => void;
}

function RepoRow({ repo, onEdit, onDelete }: RepoRowProps) {
  const cache = useQueryClient();
  const isEnabled = repo.enabled !== false;
  const change = useMutation({
    mutationFn: (enables: boolean | null) =>
      enables === null ? syncSkillRepo(repo.id) : enableSkillRepo(repo.id, enables),
    onSettled: () => cache.invalidateQueries({ queryKey: ["skills"] }),
  });
  const sync = { label: "Sync", icon: "again", onSelect: () => change.mutate(null) } as const;
  return (
    <li className="skills-row panel" aria-label={repo.url}>
      <div className="row apart">
        <span className="row skills-name">
          {repo.url}
          {repo.branch && <Tag>{repo.branch}</Tag>}
          {!isEnabled && <Tag>disabled</Tag>}
          {repo.shared && <Tag tone="busy">shared</Tag>}
          {repo.secret && <Tag>private</Tag>}
        </span>
        <Menu
          label={`Actions for ${repo.url}`}
          items={[
            ...(isEnabled ? [sync] : []),
            { label: "Change", icon: "settings", onSelect: onEdit },
            {
              label: isEnabled ? "Disable" : "Enable",
              icon: isEnabled ? "pause" : "play",
              onSelect: () => change.mutate(!isEnabled),
            },
            { label: "Delete", icon: "trash", danger: true, onSelect: onDelete },
          ]}
        />
      </div>
      <p className="small soft">
        {awaitsSync(repo) ? "Waiting for the first sync" : plural(repo.skills ?? 0, "skill")}
        {repo.commit && ` of ${repo.commit.slice(0, 10)}`}
        {repo.synced_at && (
          <>
            {" · synced "}
            <RelativeTime at={repo.synced_at} />
          </>
        )}
        {repo.sync_interval && ` · every ${formatMinutes(repo.sync_interval)}`}
        {repo.run_id && (
          <>
            {" · "}
            <Link to="/runs/$run" params={{ run: repo.run_id }}>
              last sync
            </Link>
          </>
        )}
      </p>
      {repo.problem && <p className="small bad-text">{repo.problem}</p>}
      <ErrorNotice error={change.error} />
    </li>
  );
}

function RepoDialog({ repo, onClose }: { repo: SkillRepoOut | null; onClose: () => void }) {
  const cache = useQueryClient();
  const toast = useToast();
  const isAdmin = useHasScope("admin");
  const [fields, setFields] = useState(() => makeRepoFields(repo));
  const set = (changed: Partial<RepoFields>) => setFields((before) => ({ ...before, ...changed }));
  const submission = useMutation({
    mutationFn: () => saveSkillRepo(repo?.id ?? null, fields),
    onSuccess: () => {
      toast(repo ? "Saved the repository." : "Added the repository. Its first sync has begun.");
      void cache.invalidateQueries({ queryKey: ["skills"] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (fields.url.trim()) submission.mutate();
  };
  return (
    <Dialog title={repo ? "Change the repository" : "Add a repository"} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <TextField
          label="Address"
          hint="https://host/owner/repository.git or git@host:owner/repository.git."
          required
          value={fields.url}
          onChange={(event) => set({ url: event.target.value })}
        />
        <TextField
          label="Branch"
          hint="Empty: the one that the repository calls its own."
          value={fields.branch}
          onChange={(event) => set({ branch: event.target.value })}
        />
        <TextField
          label="Secret"
          hint="For a private repository: secret:NAME, one of your secrets, with a token that may read it."
          value={fields.secret}
          onChange={(event) => set({ secret: event.target.value })}
        />
        <TextField
          label="User name"
          hint="Beside the secret. Most hosts take any name beside a token."
          value={fields.username}
          onChange={(event) => set({ username: event.target.value })}
        />
        <TextField
          label="Sync every"
          hint="A duration such as 1h or 1d. Empty: only when you start a sync."
          value={fields.every}
          onChange={(event) => set({ every: event.target.value })}
        />
        {isAdmin && (
          <Checkbox
            label="Share its skills with everybody"
            checked={fields.isShared}
            onChange={(event) => set({ isShared: event.target.checked })}
          />
        )}
        <ErrorNotice error={submission.error} />
        <div className="row skills-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!fields.url.trim()} busy={submission.isPending}>
            {repo ? "Save" : "Add and sync"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function DeleteDialog({ repo, onClose }: { repo: SkillRepoOut; onClose: () => void }) {
  const cache = useQueryClient();
  const toast = useToast();
  return (
    <ConfirmDialog
      title="Delete the repository?"
      verb="Delete the repository"
      onConfirm={async () => {
        await deleteSkillRepo(repo.id);
        toast("Deleted the repository.");
        await cache.invalidateQueries({ queryKey: ["skills"] });
      }}
      onClose={onClose}
    >
      <p>
        Deletes <code>{repo.url}</code> here, with its {plural(repo.skills ?? 0, "skill")}. The repository
        itself stays as it is.
      </p>
    </ConfirmDialog>
  );
}
