import type { WireDialect } from "../wire_dialect.ts";
import { ChatFrames } from "./chat_frames.ts";
import { readCompletionUsage } from "./read_completion.ts";

/** Chat completions. */
export const CHAT: WireDialect = {
  name: "chat",
  createFrames: (options) => new ChatFrames(options),
  readUsage: readCompletionUsage,
};
