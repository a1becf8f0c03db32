// The list of skills: those of the caller, then shared ones. New ones are written, or imported from a file.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import type { SkillOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Checkbox, SearchField, TextArea, TextField } from "@/kit/fields";
import { Menu, type MenuItem } from "@/kit/Menu";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { AgentTabs } from "@/pages/agents/AgentTabs";
import { archiveAddress, createSkill, deleteSkill, importSkills, skillsQuery } from "@/pages/skills/calls";
import { canEdit, filterSkills, TEMPLATE } from "@/pages/skills/words";
import { useHasScope } from "@/shell/me";
import { usePageName } from "@/shell/pageName";
import { usePageSearch } from "@/shell/usePageSearch";
import { bytes, plural } from "@/text/format";
import "@/pages/skills/skills.css";

export default function Skills() {
  const [{ q = "", add }, setSearch] = usePageSearch("/agents/skills");
  const query = useQuery(skillsQuery(useHasScope("operate")));
  const [deleted, setDeleted] = useState<SkillOut | null>(null);
  const close = () => setSearch({ add: undefined }, true);
  usePageName("Skills");
  return (
    <>
      <PageHeader title="Skills" note="Instructions with files that agents read when a task needs them.">
        <Button icon="up" onClick={() => setSearch({ add: "import" })}>
          Import
        </Button>
        <Button kind="primary" icon="plus" onClick={() => setSearch({ add: "new" })}>
          New skill
        </Button>
      </PageHeader>
      <AgentTabs />
      <div className="stack">
        <search className="row">
          <SearchField
            label="Search skills"
            value={q}
            onChange={(term) => setSearch({ q: term || undefined }, true)}
          />
        </search>
        <QueryView query={query}>
          {(all) => {
            const shown = filterSkills(all, q);
            if (shown.length === 0)
              return all.length > 0 ? (
                <EmptyState title="No skills match this search.">
                  <Button small onClick={() => setSearch({ q: undefined })}>
                    Clear search
                  </Button>
                </EmptyState>
              ) : (
                <EmptyState title="You have no skills yet.">
                  <p>
                    Write one, import an archive, or add a git repository. Then offer skills in the form of an
                    agent.
                  </p>
                </EmptyState>
              );
            return (
              <ul className="plain skills-list" aria-label="Skills">
                {shown.map((skill) => (
                  <SkillRow
                    key={`${skill.owner} ${skill.name}`}
                    skill={skill}
                    onDelete={() => setDeleted(skill)}
                  />
                ))}
              </ul>
            );
          }}
        </QueryView>
      </div>
      {add === "new" && <NewSkillDialog onClose={close} />}
      {add === "import" && <ImportDialog onClose={close} />}
      {deleted && <DeleteSkillDialog name={deleted.name} onClose={() => setDeleted(null)} />}
    </>
  );
}

function SkillRow({ skill, onDelete }: { skill: SkillOut; onDelete: () => void }) {
  const isAdmin = useHasScope("admin");
  const remove: MenuItem = { label: "Delete", icon: "trash", danger: true, onSelect: onDelete };
  return (
    <li className="skills-row panel" aria-label={skill.name}>
      <div className="row apart">
        <span className="row skills-name">
          <Link to="/agents/skills/$skill" params={{ skill: skill.name }}>
            {skill.name}
          </Link>
          {skill.read_only && <Tag>git</Tag>}
          {skill.shared && <Tag tone="busy">shared</Tag>}
          {!skill.is_own && <Tag>{`of ${skill.owner_name}`}</Tag>}
        </span>
        <Menu
          label={`Actions for ${skill.name}`}
          items={[
            { label: "Export", icon: "download", href: archiveAddress(skill.name) },
            ...(canEdit(skill, isAdmin) ? [remove] : []),
          ]}
        />
      </div>
      <p className="small">{skill.description}</p>
      <p className="small soft">
        {`${plural(skill.file_count ?? 0, "file")} · ${bytes(skill.size_bytes ?? 0)}`}
      </p>
    </li>
  );
}

function NewSkillDialog({ onClose }: { onClose: () => void }) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [document, setDocument] = useState(TEMPLATE);
  const submission = useMutation({
    mutationFn: () => createSkill(document),
    onSuccess: async ({ name }) => {
      await cache.invalidateQueries({ queryKey: ["skills"] });
      await navigate({ to: "/agents/skills/$skill", params: { skill: name } });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    submission.mutate();
  };
  return (
    <Dialog title="New skill" wide onClose={onClose}>
      <form className="stack skills-document" onSubmit={submit}>
        <TextArea
          label="SKILL.md"
          hint="Agents choose a skill by its description: say what it does, and when to use it."
          value={document}
          onChange={(event) => setDocument(event.target.value)}
        />
        <ErrorNotice error={submission.error} />
        <div className="row skills-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={submission.isPending}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function ImportDialog({ onClose }: { onClose: () => void }) {
  const cache = useQueryClient();
  const toast = useToast();
  const [file, setFile] = useState<File | null>(null);
  const [replaces, setReplaces] = useState(false);
  const submission = useMutation({
    mutationFn: (chosen: File) => importSkills(chosen, replaces),
    onSuccess: (names) => {
      toast(`Imported ${names.join(", ")}.`);
      void cache.invalidateQueries({ queryKey: ["skills"] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (file) submission.mutate(file);
  };
  return (
    <Dialog title="Import skills" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <TextField
          type="file"
          label="File"
          accept=".gz,.tgz,.tar,.zip,.md"
          hint="A tar.gz, tar or zip with any number of skills, or a SKILL.md. At most 16 MiB."
          onChange={(event) => {
            setFile(event.target.files?.[0] ?? null);
            submission.reset();
          }}
        />
        <Checkbox
          label="Replace my skills of the same names"
          checked={replaces}
          onChange={(event) => setReplaces(event.target.checked)}
        />
        <ErrorNotice error={submission.error} />
        <div className="row skills-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!file} busy={submission.isPending}>
            Import
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export function DeleteSkillDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  return (
    <ConfirmDialog
      title={`Delete ${name}?`}
      verb="Delete the skill"
      onConfirm={async () => {
        await deleteSkill(name);
        toast(`Deleted ${name}.`);
        await navigate({ to: "/agents/skills" });
        await cache.invalidateQueries({ queryKey: ["skills", "list"] });
      }}
      onClose={onClose}
    >
      <p>Deletes the skill with its files. Agents are not offered it any more. This cannot be undone.</p>
    </ConfirmDialog>
  );
}
