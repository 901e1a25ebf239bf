import type { WireDialect } from "../wire_dialect.ts";
import { ChatFrames } from "./chat_frames.ts";
import { readCompletionUsage } from "./read_completion.ts";

/** Legacy completions: their usage, their ends and their errors look as those of chat completions do. */
export const COMPLETIONS: WireDialect = {
  name: "completions",
  createFrames: (options) => new ChatFrames(options),
  readUsage: readCompletionUsage,
};

/** Embeddings: never streamed, and of the answer nothing is billed. */
export const EMBEDDINGS: WireDialect = {
  name: "embeddings",
  createFrames: (options) => new ChatFrames(options),
  readUsage: readCompletionUsage,
  estimates: "input",
};

/** Chat completions. */
export const CHAT: WireDialect = {
  name: "chat",
  createFrames: (options) => new ChatFrames(options),
  readUsage: readCompletionUsage,
};
