// Stored secrets: those of the caller, and those of the cluster. Values are written and never shown.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { SecretOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { useToast } from "@/kit/toasts";
import { filterSecrets } from "@/pages/access/accessLists";
import { deleteSecret, type SecretScope, secrets } from "@/pages/access/calls";
import { SecretRow } from "@/pages/access/SecretRow";
import { SetSecretDialog } from "@/pages/access/SetSecretDialog";
import { useHasScope } from "@/shell/me";
import { usePageSearch } from "@/shell/usePageSearch";

type SecretAction = { kind: "replace" | "delete"; secret: SecretOut };

export function SecretList() {
  const [{ q = "", of, new: isNew }, setSearch] = usePageSearch("/access");
  const operates = useHasScope("operate");
  const isAdmin = useHasScope("admin");
  // Only operators may see those of the cluster, and only admins may change them.
  const scope: SecretScope = of === "cluster" && operates ? "cluster" : "own";
  const canChange = scope === "own" || isAdmin;
  const query = useQuery(secrets(scope, operates));
  const [dialog, setDialog] = useState<SecretAction | null>(null);
  const close = () => setDialog(null);
  const closeNew = () => setSearch({ new: undefined }, true);
  return (
    <>
      <QueryView query={query}>
        {(all) => {
          const shown = filterSecrets(all, q);
          if (shown.length === 0)
            return (
              <NoSecrets
                isFiltered={all.length > 0}
                scope={scope}
                onNew={canChange ? () => setSearch({ new: true }) : null}
              />
            );
          return (
            <ul className="plain access-list" aria-label="Secrets">
              {shown.map((secret) => (
                <SecretRow
                  key={secret.id}
                  secret={secret}
                  onReplace={canChange ? () => setDialog({ kind: "replace", secret }) : null}
                  onDelete={canChange ? () => setDialog({ kind: "delete", secret }) : null}
                />
              ))}
            </ul>
          );
        }}
      </QueryView>
      {isNew && canChange && <SetSecretDialog scope={scope} name={null} onClose={closeNew} />}
      {dialog?.kind === "replace" && (
        <SetSecretDialog scope={scope} name={dialog.secret.name} onClose={close} />
      )}
      {dialog?.kind === "delete" && (
        <DeleteSecretDialog scope={scope} name={dialog.secret.name} onClose={close} />
      )}
    </>
  );
}

interface NoSecretsProps {
  isFiltered: boolean;
  scope: SecretScope;
  onNew: (() => void) | null;
}

function NoSecrets({ isFiltered, scope, onNew }: NoSecretsProps) {
  if (isFiltered) return <EmptyState title="No secrets match this search.">Change the search.</EmptyState>;
  return (
    <EmptyState title={scope === "own" ? "You have no secrets yet." : "The cluster has no secrets yet."}>
      <p>
        Store the token of another service under a name. Agents, tasks and MCP servers refer to it, for
        example as <code>{scope === "own" ? "secret:hub-token" : "cluster-secret:hub-token"}</code>, and its
        value is never shown again.
      </p>
      {onNew ? (
        <Button small icon="plus" onClick={onNew}>
          New secret
        </Button>
      ) : (
        <p>Only admins set secrets of the cluster.</p>
      )}
    </EmptyState>
  );
}

function DeleteSecretDialog({
  scope,
  name,
  onClose,
}: {
  scope: SecretScope;
  name: string;
  onClose: () => void;
}) {
  const toast = useToast();
  const cache = useQueryClient();
  return (
    <ConfirmDialog
      title={`Delete ${name}?`}
      verb={`Delete ${name}`}
      onConfirm={async () => {
        await deleteSecret(scope, name);
        toast(`Deleted secret ${name}.`);
        void cache.invalidateQueries({ queryKey: ["secrets"] });
      }}
      onClose={onClose}
    >
      <p>What refers to it fails from now on. The value cannot be restored.</p>
    </ConfirmDialog>
  );
}
