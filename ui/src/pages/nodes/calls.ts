// API calls that change a node.
import { api, unwrapResponse } from "@/api/client";
import type { NodeOut } from "@/api/schema";

const at = (node: string) => ({ params: { path: { node } } });

/** Approves the node with the labels that are shown, and no others that its worker may have sent meanwhile. */
export const approveNode = (node: Pick<NodeOut, "id" | "proposed_labels">) =>
  unwrapResponse(
    api.POST("/api/nodes/{node}/approve", { ...at(node.id), body: { labels: node.proposed_labels ?? {} } }),
  );
export const approveLabels = (node: Pick<NodeOut, "id" | "proposed_labels">) =>
  unwrapResponse(
    api.POST("/api/nodes/{node}/approve-labels", {
      ...at(node.id),
      body: { labels: node.proposed_labels ?? {} },
    }),
  );
export const drainNode = (node: string) => unwrapResponse(api.POST("/api/nodes/{node}/drain", at(node)));
export const resumeNode = (node: string) => unwrapResponse(api.POST("/api/nodes/{node}/resume", at(node)));
export const probeNode = (node: string) => unwrapResponse(api.POST("/api/nodes/{node}/probe", at(node)));
export const stopWorker = (node: string) => unwrapResponse(api.POST("/api/nodes/{node}/stop", at(node)));
export const removeNode = (node: string) => unwrapResponse(api.DELETE("/api/nodes/{node}", at(node)));

export const setLabel = (node: string, key: string, value: string) =>
  unwrapResponse(api.PATCH("/api/nodes/{node}/labels", { ...at(node), body: { [key]: value } }));
export const removeLabel = (node: string, key: string) =>
  unwrapResponse(api.DELETE("/api/nodes/{node}/labels/{key}", { params: { path: { node, key } } }));

export const setBudget = (node: string, value: string) =>
  unwrapResponse(api.PUT("/api/nodes/{node}/vram-budget", { ...at(node), body: { value } }));
export const resetBudget = (node: string) =>
  unwrapResponse(api.DELETE("/api/nodes/{node}/vram-budget", at(node)));

export const setSlots = (node: string, value: number) =>
  unwrapResponse(api.PUT("/api/nodes/{node}/max-replicas-per-model", { ...at(node), body: { value } }));
export const resetSlots = (node: string) =>
  unwrapResponse(api.DELETE("/api/nodes/{node}/max-replicas-per-model", at(node)));

/** Unloads the replicas of a model from a node, queued behind active operations. With force, requests are cut off. */
export const unloadFromNode = (model: string, node: Pick<NodeOut, "id">, force: boolean) =>
  unwrapResponse(
    api.POST("/api/models/{name}/unload", {
      params: { path: { name: model }, query: { after: true } },
      body: { force, delete_files: false, nodes: [node.id] },
    }),
  );

export const endProcess = (node: string, key: string, force: boolean) =>
  unwrapResponse(
    api.POST("/api/nodes/{node}/backends/stop", {
      ...at(node),
      body: { key, force, backend: "", all: false },
    }),
  );

export type NodeBackendVerb = "upgrade" | "reinstall" | "rollback" | "delete";

export function changeBackend(node: string, verb: NodeBackendVerb, backend: string) {
  const request = { ...at(node), body: { backend, version: "" } };
  switch (verb) {
    case "upgrade":
      return unwrapResponse(api.POST("/api/nodes/{node}/backends/upgrade", request));
    case "reinstall":
      return unwrapResponse(api.POST("/api/nodes/{node}/backends/reinstall", request));
    case "rollback":
      return unwrapResponse(api.POST("/api/nodes/{node}/backends/rollback", request));
    case "delete":
      return unwrapResponse(api.POST("/api/nodes/{node}/backends/delete", request));
  }
}
