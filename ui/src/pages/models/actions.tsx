// The actions of a model: their labels, and the dialogs that confirm them.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { live } from "@/api/queries";
import type { ModelOut, OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import type { IconName } from "@/kit/icons";
import { Menu } from "@/kit/Menu";
import { useToast } from "@/kit/toasts";
import { loadModel, setEnabled, setPinned } from "@/pages/models/calls";
import { DeleteDialog, RenameDialog, UnloadDialog } from "@/pages/models/dialogs";
import { countInFlight, listActions, type ModelAction } from "@/pages/models/state";
import { QuantizeDialog } from "@/pages/quantization/QuantizeDialog";

const SHOWN: Record<ModelAction, { label: string; icon: IconName }> = {
  load: { label: "Load", icon: "play" },
  unload: { label: "Unload", icon: "stop" },
  talk: { label: "Chat", icon: "playground" },
  logs: { label: "Logs", icon: "menu" },
  enable: { label: "Enable", icon: "check" },
  disable: { label: "Disable", icon: "pause" },
  pin: { label: "Pin", icon: "up" },
  unpin: { label: "Unpin", icon: "down" },
  edit: { label: "Edit", icon: "settings" },
  quantize: { label: "Quantise", icon: "down" },
  rename: { label: "Rename", icon: "again" },
  delete: { label: "Delete", icon: "trash" },
};
/** The actions shown as buttons beside the name; the others are in the menu. */
const atHand = (model: ModelOut): readonly ModelAction[] =>
  (model.replicas ?? []).length > 0 ? ["unload", "talk"] : ["load", "talk"];

/** The accessible name of an action: no two buttons of a page have the same one. */
function nameOf(action: ModelAction, model: ModelOut): string {
  if (action === "talk") return `Chat with ${model.name}`;
  if (action === "load" && (model.replicas ?? []).length > 0) return `Load one more replica of ${model.name}`;
  if (action === "logs") return `Logs of ${model.name}`;
  return `${SHOWN[action].label} ${model.name}`;
}

/** The link to the logs of the only replica; with several replicas, to the model's page, where the user picks one. */
function logsOf(model: ModelOut) {
  const [first, second] = model.replicas ?? [];
  if (!first || second) return { to: "/models/$model", params: { model: model.name } } as const;
  const node = first.node_name || first.node_id;
  const search = { tab: "logs", log: `${model.name}#${first.index}` } as const;
  return { to: "/nodes/$node", params: { node }, search } as const;
}

type OpenDialog = "unload" | "quantize" | "rename" | "delete" | null;

function useModelActions(model: ModelOut) {
  const navigate = useNavigate();
  const toast = useToast();
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  const { data: shown } = useQuery(live);
  const change = useMutation({
    mutationFn: async (work: () => Promise<unknown>) => work(),
    onSuccess: (answered) => {
      const message = (answered as { message?: string } | null)?.message;
      if (message) toast(message);
    },
  });
  const run = (action: ModelAction) => {
    const { name } = model;
    if (action === "talk") void navigate({ to: "/playground", search: { model: name } });
    else if (action === "logs") void navigate(logsOf(model));
    else if (action === "edit")
      void navigate({ to: "/models/$model", params: { model: name }, search: { tab: "configuration" } });
    else if (action === "load") change.mutate(() => loadModel(name, null));
    else if (action === "enable") change.mutate(() => setEnabled(name, true));
    else if (action === "disable") change.mutate(() => setEnabled(name, false));
    else if (action === "pin" || action === "unpin") change.mutate(() => setPinned(name, action === "pin"));
    else setOpenDialog(action);
  };
  const close = () => setOpenDialog(null);
  let dialog: ReactNode = null;
  if (openDialog === "unload")
    dialog = <UnloadDialog model={model} node={null} busy={countInFlight(model, shown)} onClose={close} />;
  if (openDialog === "quantize") dialog = <QuantizeDialog model={model.name} onClose={close} />;
  if (openDialog === "rename") dialog = <RenameDialog model={model} onClose={close} />;
  if (openDialog === "delete") dialog = <DeleteDialog model={model} onClose={close} />;
  return { run, dialog, error: change.error, isBusy: change.isPending };
}

export function ModelActions({ model, busy }: { model: ModelOut; busy: readonly OperationOut[] }) {
  const { run, dialog, isBusy, error } = useModelActions(model);
  const offered = listActions(model, busy);
  if (offered.length === 0) return null;
  return (
    <>
      <div className="row models-actions">
        {offered
          .filter((action) => atHand(model).includes(action))
          .map((action) => (
            <Button
              key={action}
              small
              icon={SHOWN[action].icon}
              busy={isBusy}
              aria-label={
                action === "talk" ? `Chat with ${model.name}` : `${SHOWN[action].label} ${model.name}`
              }
              onClick={() => run(action)}
            >
              {SHOWN[action].label}
            </Button>
          ))}
        <Menu
          label={`Actions for ${model.name}`}
          items={offered
            .filter((action) => !atHand(model).includes(action))
            .map((action) => ({
              label: nameOf(action, model),
              icon: SHOWN[action].icon,
              danger: action === "delete",
              onSelect: () => run(action),
            }))}
        />
      </div>
      {error && <ErrorNotice error={error} />}
      {dialog}
    </>
  );
}
