// What can be done to a node.
import { answer, api } from "@/api/client";
import type { NodeOut } from "@/api/schema";

const at = (node: string) => ({ params: { path: { node } } });

/** Approves the node with the labels that are shown, and no others that its worker may have sent meanwhile. */
export const approve = (node: Pick<NodeOut, "id" | "proposed_labels">) =>
  answer(
    api.POST("/api/nodes/{node}/approve", { ...at(node.id), body: { labels: node.proposed_labels ?? {} } }),
  );
export const approveLabels = (node: Pick<NodeOut, "id" | "proposed_labels">) =>
  answer(
    api.POST("/api/nodes/{node}/approve-labels", {
      ...at(node.id),
      body: { labels: node.proposed_labels ?? {} },
    }),
  );
export const drain = (node: string) => answer(api.POST("/api/nodes/{node}/drain", at(node)));
export const resume = (node: string) => answer(api.POST("/api/nodes/{node}/resume", at(node)));
export const probe = (node: string) => answer(api.POST("/api/nodes/{node}/probe", at(node)));
export const stopWorker = (node: string) => answer(api.POST("/api/nodes/{node}/stop", at(node)));
export const remove = (node: string) => answer(api.DELETE("/api/nodes/{node}", at(node)));

export const setLabel = (node: string, key: string, value: string) =>
  answer(api.PATCH("/api/nodes/{node}/labels", { ...at(node), body: { [key]: value } }));
export const dropLabel = (node: string, key: string) =>
  answer(api.DELETE("/api/nodes/{node}/labels/{key}", { params: { path: { node, key } } }));

export const setBudget = (node: string, value: string) =>
  answer(api.PUT("/api/nodes/{node}/vram-budget", { ...at(node), body: { value } }));
export const resetBudget = (node: string) => answer(api.DELETE("/api/nodes/{node}/vram-budget", at(node)));

export const setSlots = (node: string, value: number) =>
  answer(api.PUT("/api/nodes/{node}/max-replicas-per-model", { ...at(node), body: { value } }));
export const resetSlots = (node: string) =>
  answer(api.DELETE("/api/nodes/{node}/max-replicas-per-model", at(node)));

/** Replicas of one model on one node, behind what is under way. With force, requests are cut off. */
export const unload = (model: string, node: Pick<NodeOut, "id">, force: boolean) =>
  answer(
    api.POST("/api/models/{name}/unload", {
      params: { path: { name: model }, query: { after: true } },
      body: { force, delete_files: false, nodes: [node.id] },
    }),
  );

export const endProcess = (node: string, key: string, force: boolean) =>
  answer(
    api.POST("/api/nodes/{node}/backends/stop", {
      ...at(node),
      body: { key, force, backend: "", all: false },
    }),
  );

export type BackendVerb = "upgrade" | "reinstall" | "rollback" | "delete";

export function changeBackend(node: string, verb: BackendVerb, backend: string) {
  const wish = { ...at(node), body: { backend, version: "" } };
  switch (verb) {
    case "upgrade":
      return answer(api.POST("/api/nodes/{node}/backends/upgrade", wish));
    case "reinstall":
      return answer(api.POST("/api/nodes/{node}/backends/reinstall", wish));
    case "rollback":
      return answer(api.POST("/api/nodes/{node}/backends/rollback", wish));
    case "delete":
      return answer(api.POST("/api/nodes/{node}/backends/delete", wish));
  }
}
