import type { ProxiedKind } from "../../router/usage_fact.ts";
import type { RouteMethod } from "../route.ts";

/** One path of OpenAI's API that passes through to a provider. */
export interface PassRow {
  method: RouteMethod;
  path: string;
  kind: ProxiedKind;
  summary: string;
  /**
   * The request makes something anew each time and keeps nothing: its answer tells what it cost, and it may be sent again
   * after a failure. Other POSTs are sent once.
   */
  generates?: true;
  /** The body is a file: it is sent on while it comes, and has no model. */
  upload?: true;
  /** The answer is a file. */
  download?: true;
}

/** Everything under `/v1` that passes through; what is not here is 404. */
export const PASS_TABLE: readonly PassRow[] = [
  {
    method: "POST",
    path: "/v1/images/generations",
    kind: "images",
    summary: "Make images",
    generates: true,
  },
  {
    method: "POST",
    path: "/v1/images/edits",
    kind: "images",
    summary: "Change images",
    generates: true,
  },
  {
    method: "POST",
    path: "/v1/images/variations",
    kind: "images",
    summary: "Vary an image",
    generates: true,
  },
  {
    method: "POST",
    path: "/v1/audio/speech",
    kind: "audio",
    summary: "Text as speech",
    generates: true,
  },
  {
    method: "POST",
    path: "/v1/audio/transcriptions",
    kind: "audio",
    summary: "Speech as text",
    generates: true,
  },
  {
    method: "POST",
    path: "/v1/audio/translations",
    kind: "audio",
    summary: "Speech as English text",
    generates: true,
  },
  {
    method: "POST",
    path: "/v1/moderations",
    kind: "moderations",
    summary: "Judge a text or an image",
    generates: true,
  },
  {
    method: "POST",
    path: "/v1/rerank",
    kind: "rerank",
    summary: "Order documents by relevance",
    generates: true,
  },
  { method: "POST", path: "/v1/videos", kind: "videos", summary: "Begin a video" },
  { method: "GET", path: "/v1/videos", kind: "videos", summary: "Videos" },
  { method: "GET", path: "/v1/videos/:id", kind: "videos", summary: "One video" },
  { method: "DELETE", path: "/v1/videos/:id", kind: "videos", summary: "Delete a video" },
  {
    method: "GET",
    path: "/v1/videos/:id/content",
    kind: "videos",
    summary: "A video's file",
    download: true,
  },
  {
    method: "POST",
    path: "/v1/videos/:id/remix",
    kind: "videos",
    summary: "Begin a video after another",
  },
  { method: "POST", path: "/v1/files", kind: "files", summary: "Upload a file", upload: true },
  { method: "GET", path: "/v1/files", kind: "files", summary: "Files" },
  { method: "GET", path: "/v1/files/:id", kind: "files", summary: "One file" },
  { method: "DELETE", path: "/v1/files/:id", kind: "files", summary: "Delete a file" },
  {
    method: "GET",
    path: "/v1/files/:id/content",
    kind: "files",
    summary: "A file's content",
    download: true,
  },
  { method: "POST", path: "/v1/uploads", kind: "uploads", summary: "Begin an upload in parts" },
  {
    method: "POST",
    path: "/v1/uploads/:id/parts",
    kind: "uploads",
    summary: "Upload a part",
    upload: true,
  },
  { method: "POST", path: "/v1/uploads/:id/complete", kind: "uploads", summary: "Join the parts" },
  { method: "POST", path: "/v1/uploads/:id/cancel", kind: "uploads", summary: "Give an upload up" },
  { method: "POST", path: "/v1/batches", kind: "batches", summary: "Begin a batch" },
  { method: "GET", path: "/v1/batches", kind: "batches", summary: "Batches" },
  { method: "GET", path: "/v1/batches/:id", kind: "batches", summary: "One batch" },
  { method: "POST", path: "/v1/batches/:id/cancel", kind: "batches", summary: "Stop a batch" },
  {
    method: "POST",
    path: "/v1/vector_stores",
    kind: "vector_stores",
    summary: "Make a vector store",
  },
  { method: "GET", path: "/v1/vector_stores", kind: "vector_stores", summary: "Vector stores" },
  {
    method: "GET",
    path: "/v1/vector_stores/:id",
    kind: "vector_stores",
    summary: "One vector store",
  },
  {
    method: "POST",
    path: "/v1/vector_stores/:id",
    kind: "vector_stores",
    summary: "Change a vector store",
  },
  {
    method: "DELETE",
    path: "/v1/vector_stores/:id",
    kind: "vector_stores",
    summary: "Delete a vector store",
  },
  {
    method: "POST",
    path: "/v1/vector_stores/:id/search",
    kind: "vector_stores",
    summary: "Search a vector store",
  },
  {
    method: "POST",
    path: "/v1/vector_stores/:id/files",
    kind: "vector_stores",
    summary: "Add a file to it",
  },
  {
    method: "GET",
    path: "/v1/vector_stores/:id/files",
    kind: "vector_stores",
    summary: "Its files",
  },
  {
    method: "GET",
    path: "/v1/vector_stores/:id/files/:file",
    kind: "vector_stores",
    summary: "One of its files",
  },
  {
    method: "POST",
    path: "/v1/vector_stores/:id/files/:file",
    kind: "vector_stores",
    summary: "Change one of its files",
  },
  {
    method: "DELETE",
    path: "/v1/vector_stores/:id/files/:file",
    kind: "vector_stores",
    summary: "Take a file out of it",
  },
  {
    method: "GET",
    path: "/v1/vector_stores/:id/files/:file/content",
    kind: "vector_stores",
    summary: "What it holds of a file",
  },
  {
    method: "POST",
    path: "/v1/vector_stores/:id/file_batches",
    kind: "vector_stores",
    summary: "Add many files to it",
  },
  {
    method: "GET",
    path: "/v1/vector_stores/:id/file_batches/:batch",
    kind: "vector_stores",
    summary: "How that goes",
  },
  {
    method: "POST",
    path: "/v1/vector_stores/:id/file_batches/:batch/cancel",
    kind: "vector_stores",
    summary: "Stop it",
  },
  {
    method: "GET",
    path: "/v1/vector_stores/:id/file_batches/:batch/files",
    kind: "vector_stores",
    summary: "Its files",
  },
  {
    method: "POST",
    path: "/v1/fine_tuning/jobs",
    kind: "fine_tuning",
    summary: "Begin a fine-tuning",
  },
  { method: "GET", path: "/v1/fine_tuning/jobs", kind: "fine_tuning", summary: "Fine-tunings" },
  {
    method: "GET",
    path: "/v1/fine_tuning/jobs/:id",
    kind: "fine_tuning",
    summary: "One fine-tuning",
  },
  {
    method: "POST",
    path: "/v1/fine_tuning/jobs/:id/cancel",
    kind: "fine_tuning",
    summary: "Stop a fine-tuning",
  },
  {
    method: "GET",
    path: "/v1/fine_tuning/jobs/:id/events",
    kind: "fine_tuning",
    summary: "Its events",
  },
  {
    method: "GET",
    path: "/v1/fine_tuning/jobs/:id/checkpoints",
    kind: "fine_tuning",
    summary: "Its checkpoints",
  },
];
