// One skill: its SKILL.md as text, and its files. What comes from a repository is only shown.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { type ChangeEvent, type FormEvent, useRef, useState } from "react";
import type { SkillDetailOut, SkillFileOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextArea, TextField } from "@/kit/fields";
import { Menu } from "@/kit/Menu";
import { EmptyState, PageHeader, Panel } from "@/kit/Panel";
import { RecordView } from "@/kit/RecordView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Switch } from "@/kit/Switch";
import { Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import {
  archiveAddress,
  deleteSkillFile,
  fileAddress,
  saveSkill,
  shareSkill,
  skillQuery,
  uploadSkillFile,
} from "@/pages/skills/calls";
import { DeleteSkillDialog } from "@/pages/skills/Skills";
import { canEdit } from "@/pages/skills/words";
import { useHasScope } from "@/shell/me";
import { usePageName } from "@/shell/pageName";
import { bytes } from "@/text/format";
import "@/pages/skills/skills.css";

export default function SkillPage() {
  const { skill: name } = useParams({ from: "/agents/skills/$skill" });
  const query = useQuery(skillQuery(name, useHasScope("operate")));
  usePageName(name);
  return (
    <RecordView
      query={query}
      back={<Link to="/agents/skills">All skills</Link>}
      gone={`${name} was deleted.`}
    >
      {(skill) => <SkillView key={skill.name} skill={skill} />}
    </RecordView>
  );
}

function SkillView({ skill }: { skill: SkillDetailOut }) {
  const isAdmin = useHasScope("admin");
  const isEditable = canEdit(skill, isAdmin);
  const [isDeleting, setDeleting] = useState(false);
  return (
    <>
      <PageHeader
        title={skill.name}
        note={
          <span className="row tight">
            {skill.read_only ? `From ${skill.repo_url} at ${skill.commit?.slice(0, 10)}` : skill.description}
            {skill.shared && <Tag tone="busy">shared</Tag>}
            {!skill.is_own && <Tag>{`of ${skill.owner_name}`}</Tag>}
          </span>
        }
      >
        {isEditable && isAdmin && <ShareSwitch skill={skill} />}
        <a className="button plain" href={archiveAddress(skill.name)} download>
          Export
        </a>
        {isEditable && (
          <Button kind="danger" icon="trash" onClick={() => setDeleting(true)}>
            Delete
          </Button>
        )}
      </PageHeader>
      <div className="stack">
        <DocumentPanel skill={skill} isEditable={isEditable} />
        <FilesPanel skill={skill} isEditable={isEditable} />
      </div>
      {isDeleting && <DeleteSkillDialog name={skill.name} onClose={() => setDeleting(false)} />}
    </>
  );
}

function ShareSwitch({ skill }: { skill: SkillDetailOut }) {
  const cache = useQueryClient();
  const toast = useToast();
  const change = useMutation({
    mutationFn: (shared: boolean) => shareSkill(skill, shared),
    onSuccess: (saved) => toast(saved.shared ? `Shared ${saved.name}.` : `${saved.name} is private now.`),
    onSettled: () => cache.invalidateQueries({ queryKey: ["skills"] }),
  });
  return (
    <span className="row tight">
      <ErrorNotice error={change.error} />
      <span className="small">Shared with everybody</span>
      <Switch
        label="Shared with everybody"
        isOn={skill.shared === true}
        disabled={change.isPending}
        onChange={(isOn) => change.mutate(isOn)}
      />
    </span>
  );
}

interface PartProps {
  skill: SkillDetailOut;
  isEditable: boolean;
}

function DocumentPanel({ skill, isEditable }: PartProps) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  // The text that is edited, and the revision that it began with; none: nothing was changed.
  const [draft, setDraft] = useState<{ text: string; revision: number } | null>(null);
  const save = useMutation({
    mutationFn: ({ text, revision }: { text: string; revision: number }) =>
      saveSkill(skill.name, text, revision),
    onSuccess: async (saved) => {
      setDraft(null);
      toast(`Saved ${saved.name}.`);
      if (saved.name !== skill.name)
        await navigate({ to: "/agents/skills/$skill", params: { skill: saved.name }, replace: true });
      await cache.invalidateQueries({ queryKey: ["skills"] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (draft) save.mutate(draft);
  };
  return (
    <Panel
      title="SKILL.md"
      note={
        <>
          Changed <RelativeTime at={skill.updated_at} />
        </>
      }
    >
      <form className="stack skills-document" onSubmit={submit}>
        <TextArea
          label="Front matter and instructions"
          readOnly={!isEditable}
          value={draft?.text ?? skill.document}
          onChange={(event) =>
            setDraft({ text: event.target.value, revision: draft?.revision ?? skill.revision ?? 1 })
          }
        />
        <ErrorNotice error={save.error} />
        {isEditable && (
          <div className="row skills-buttons">
            <Button
              disabled={!draft}
              onClick={() => {
                setDraft(null);
                save.reset();
              }}
            >
              Discard changes
            </Button>
            <Button kind="primary" type="submit" disabled={!draft} busy={save.isPending}>
              Save
            </Button>
          </div>
        )}
      </form>
    </Panel>
  );
}

function FilesPanel({ skill, isEditable }: PartProps) {
  const cache = useQueryClient();
  const toast = useToast();
  const change = useMutation({
    mutationFn: (path: string) => deleteSkillFile(skill.name, path),
    onSuccess: (_, path) => toast(`Deleted ${path}.`),
    onSettled: () => cache.invalidateQueries({ queryKey: ["skills"] }),
  });
  const files = skill.files ?? [];
  return (
    <Panel title="Files" note="Agents read those that the instructions name.">
      <ErrorNotice error={change.error} />
      {files.length === 0 ? (
        <EmptyState title="This skill has no files." />
      ) : (
        <ul className="plain skills-list" aria-label="Files">
          {files.map((file) => (
            <FileRow
              key={file.path}
              name={skill.name}
              file={file}
              onDelete={isEditable ? () => change.mutate(file.path) : undefined}
            />
          ))}
        </ul>
      )}
      {isEditable && <UploadForm name={skill.name} />}
    </Panel>
  );
}

function FileRow({
  name,
  file,
  onDelete,
}: {
  name: string;
  file: SkillFileOut;
  onDelete: (() => void) | undefined;
}) {
  const address = fileAddress(name, file.path);
  return (
    <li className="row apart" aria-label={file.path}>
      <span className="skills-name">
        <a href={address} download>
          {file.path}
        </a>{" "}
        <span className="small soft">{bytes(file.size_bytes)}</span>
      </span>
      <Menu
        label={`Actions for ${file.path}`}
        items={[
          { label: "Download", icon: "download", href: address },
          ...(onDelete
            ? [{ label: "Delete", icon: "trash", danger: true, onSelect: onDelete } as const]
            : []),
        ]}
      />
    </li>
  );
}

function UploadForm({ name }: { name: string }) {
  const cache = useQueryClient();
  const toast = useToast();
  const input = useRef<HTMLInputElement>(null);
  const [folder, setFolder] = useState("references");
  const upload = useMutation({
    mutationFn: (file: File) =>
      uploadSkillFile(name, [folder.trim().replace(/\/+$/, ""), file.name].filter(Boolean).join("/"), file),
    onSuccess: (stored) => toast(`Stored ${stored.path}.`),
    onSettled: () => cache.invalidateQueries({ queryKey: ["skills"] }),
  });
  const pick = (event: ChangeEvent<HTMLInputElement>) => {
    const file = event.target.files?.[0];
    // The same file can be chosen again.
    event.target.value = "";
    if (file) upload.mutate(file);
  };
  return (
    <div className="stack tight">
      <TextField
        label="Folder"
        hint="Where the next file goes: references, scripts or assets. Empty: beside SKILL.md."
        value={folder}
        onChange={(event) => setFolder(event.target.value)}
      />
      <input ref={input} type="file" hidden aria-label="File to upload" onChange={pick} />
      <div>
        <Button icon="plus" busy={upload.isPending} onClick={() => input.current?.click()}>
          Upload a file
        </Button>
      </div>
      <ErrorNotice error={upload.error} />
    </div>
  );
}
