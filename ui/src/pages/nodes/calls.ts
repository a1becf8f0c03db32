// What can be done to a node.
import { answer, api } from "@/api/client";

const at = (node: string) => ({ params: { path: { node } } });

export const approve = (node: string) => answer(api.POST("/api/nodes/{node}/approve", at(node)));
export const drain = (node: string) => answer(api.POST("/api/nodes/{node}/drain", at(node)));
export const resume = (node: string) => answer(api.POST("/api/nodes/{node}/resume", at(node)));
export const probe = (node: string) => answer(api.POST("/api/nodes/{node}/probe", at(node)));
export const stopWorker = (node: string) => answer(api.POST("/api/nodes/{node}/stop", at(node)));
export const remove = (node: string) => answer(api.DELETE("/api/nodes/{node}", at(node)));
