// What a job is started with: parameters, and files of this machine as data. Pure, except for reading files.
import type { JobIn, TaskOut } from "@/api/schema";
import { readParameters } from "@/pages/tasks/parameters";
import { bytes } from "@/text/format";

type MediaField = "images" | "videos" | "audios" | "files";

/** A file that was chosen; its content is read when the job is started. */
export type ChosenFile = Pick<File, "name" | "size" | "type">;

/** As in policy/tasks.py. */
export const FILES_MAX = 16;
export const FILE_BYTES_MAX = 20 * 1024 * 1024;
export const FILES_BYTES_MAX = 22 * 1024 * 1024;

export function pickMediaField(type: string): MediaField {
  if (type.startsWith("image/")) return "images";
  if (type.startsWith("video/")) return "videos";
  return type.startsWith("audio/") ? "audios" : "files";
}

/** The problem with the chosen files as a sentence; null if there is none. */
export function findFilesFault(files: readonly ChosenFile[]): string | null {
  if (files.length > FILES_MAX) return `A job has at most ${FILES_MAX} files.`;
  const large = files.find((file) => file.size > FILE_BYTES_MAX);
  if (large) return `${large.name} is larger than ${bytes(FILE_BYTES_MAX)}.`;
  const sum = files.reduce((total, file) => total + file.size, 0);
  return sum > FILES_BYTES_MAX ? `The files together are larger than ${bytes(FILES_BYTES_MAX)}.` : null;
}

export interface MediaData {
  type: string;
  /** A data URI. */
  data: string;
}

export function makeJobBody(
  task: Pick<TaskOut, "id">,
  fields: Readonly<Record<string, string>>,
  media: readonly MediaData[],
): JobIn {
  const body: JobIn = { task_id: task.id, parameters: readParameters(fields), triggered_by: "manual" };
  for (const { type, data } of media) {
    const field = pickMediaField(type);
    body[field] = [...(body[field] ?? []), data];
  }
  return body;
}

/** A file as a data URI. */
export function readAsDataUri(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => {
      // A type that the browser does not know is empty, and the server would take it for a picture or a text.
      const text = String(reader.result);
      resolve(text.replace(/^data:;/, "data:application/octet-stream;"));
    });
    reader.addEventListener("error", () => reject(new Error("The file cannot be read. Choose it again.")));
    reader.readAsDataURL(file);
  });
}

const MEDIA_SAMPLES: Record<MediaField, string> = {
  images: "https://example.org/picture.png",
  videos: "https://example.org/film.mp4",
  audios: "https://example.org/sound.wav",
  files: "https://example.org/report.txt",
};

/** A part of an address, without characters that mean something to a shell. */
function encodeForShell(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** The same call for a shell. The key is a variable; files are addresses, because a command line is too short for them. */
export function makeCurlCall(
  origin: string,
  task: Pick<TaskOut, "name">,
  fields: Readonly<Record<string, string>>,
  files: readonly ChosenFile[],
): string {
  const parameters = readParameters(
    Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, text || `<${name}>`])),
  );
  const kinds = [...new Set(files.map((file) => pickMediaField(file.type)))];
  const media = Object.fromEntries(kinds.map((kind) => [kind, [MEDIA_SAMPLES[kind]]]));
  const [path, body] =
    kinds.length > 0
      ? ["jobs/execute", { task_id: task.name, parameters, ...media }]
      : [`tasks/${encodeForShell(task.name)}/execute`, parameters];
  const json = JSON.stringify(body).replaceAll("'", "'\\''");
  return [
    `curl ${origin}/api/agent/${path}`,
    '-H "Authorization: Bearer $CORRAL_API_KEY"',
    '-H "Content-Type: application/json"',
    `-d '${json}'`,
  ].join(" \\\n  ");
}
