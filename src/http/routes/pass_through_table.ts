import type { ProxiedKind } from "../../router/usage_fact.ts";
import type { RouteMethod } from "../route.ts";

/** One path of OpenAI's API that passes through to a provider. */
export interface PassRow {
  method: RouteMethod;
  path: string;
  kind: ProxiedKind;
  summary: string;
  /**
   * What is paid for; nothing unless told. `input` and `output`: what the request makes at once, by its text alone or by
   * what comes of it; nothing is kept, and it may be sent again after a failure. `later`: what it sets going, or keeps, at
   * the provider. POSTs but those of the first two are sent once.
   */
  spends?: "input" | "output" | "later";
  /** The body's `model` is the one that works; elsewhere a member of that name says nothing. */
  takesModel?: true;
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
    spends: "output",
    takesModel: true,
  },
  {
    method: "POST",
    path: "/v1/images/edits",
    kind: "images",
    summary: "Change images",
    spends: "output",
    takesModel: true,
  },
  {
    method: "POST",
    path: "/v1/images/variations",
    kind: "images",
    summary: "Vary an image",
    spends: "output",
    takesModel: true,
  },
  {
    method: "POST",
    path: "/v1/audio/speech",
    kind: "audio",
    summary: "Text as speech",
    spends: "output",
    takesModel: true,
  },
  {
    method: "POST",
    path: "/v1/audio/transcriptions",
    kind: "audio",
    summary: "Speech as text",
    spends: "output",
    takesModel: true,
  },
  {
    method: "POST",
    path: "/v1/audio/translations",
    kind: "audio",
    summary: "Speech as English text",
    spends: "output",
    takesModel: true,
  },
  {
    method: "POST",
    path: "/v1/moderations",
    kind: "moderations",
    summary: "Judge a text or an image",
    spends: "input",
    takesModel: true,
  },
  {
    method: "POST",
    path: "/v1/rerank",
    kind: "rerank",
    summary: "Order documents by relevance",
    spends: "input",
    takesModel: true,
  },
  {
    method: "POST",
    path: "/v1/videos",
    kind: "videos",
    summary: "Begin a video",
    spends: "later",
    takesModel: true,
  },
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
    spends: "later",
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
  {
    method: "POST",
    path: "/v1/batches",
    kind: "batches",
    summary: "Begin a batch",
    spends: "later",
  },
  { method: "GET", path: "/v1/batches", kind: "batches", summary: "Batches" },
  { method: "GET", path: "/v1/batches/:id", kind: "batches", summary: "One batch" },
  { method: "POST", path: "/v1/batches/:id/cancel", kind: "batches", summary: "Stop a batch" },
  {
    method: "POST",
    path: "/v1/vector_stores",
    kind: "vector_stores",
    summary: "Make a vector store",
    spends: "later",
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
    spends: "later",
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
    spends: "later",
  },
  {
    method: "POST",
    path: "/v1/vector_stores/:id/files",
    kind: "vector_stores",
    summary: "Add a file to it",
    spends: "later",
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
    spends: "later",
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
    spends: "later",
    takesModel: true,
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
