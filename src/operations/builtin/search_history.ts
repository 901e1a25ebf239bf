import { readSteering } from "../../core/steering.ts";
import type { UIMessage, UIPart } from "../../core/ui_message.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import { toModelView } from "../tool_output.ts";

/** The stored messages of a tenant's session, oldest first. */
export type ReadMessages = (
  scope: { tenantId: string; sessionId: string },
) => Promise<UIMessage[]>;

const DEFAULT_FOUND = 10;
const MAX_FOUND = 50;
const BEFORE = 120;
const AROUND = 400;

/** `hub.search_history`: finds earlier messages of the same session by words. */
export function createSearchHistory({ readMessages }: { readMessages: ReadMessages }): Operation {
  return defineOperation({
    namespace: "hub",
    name: "search_history",
    description:
      "Searches the earlier messages and tool results of this conversation. A message is found " +
      "when it contains all words of the query, upper and lower case being the same. Gives excerpts, newest first.",
    input: Type.Object({
      query: Type.String({ minLength: 1, maxLength: 500, description: "Words to look for" }),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: MAX_FOUND,
          description: `Most messages to show, ${DEFAULT_FOUND} when left out`,
        }),
      ),
    }),
    output: Type.Object({
      searched: Type.Integer(),
      found: Type.Array(
        Type.Object({ messageId: Type.String(), role: Type.String(), excerpt: Type.String() }),
      ),
    }),
    effect: "pure",
    inRunsOnly: true,
    async run({ query, limit = DEFAULT_FOUND }, { principal, sessionId }) {
      const messages = await readMessages({ tenantId: principal.tenantId, sessionId });
      const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
      const found = [];
      for (const { id, role, parts } of messages.toReversed()) {
        if (found.length >= limit) break;
        const excerpt = findExcerpt(parts.map(readable).join("\n"), words);
        if (excerpt !== null) found.push({ messageId: id, role, excerpt });
      }
      return { searched: messages.length, found };
    },
  });
}

function readable(part: UIPart): string {
  switch (part.type) {
    case "text":
      return part.text;
    case "tool":
      return [
        part.toolName,
        part.input === undefined ? "" : JSON.stringify(part.input),
        part.output === undefined ? "" : toModelView(part.output).text,
        part.errorText ?? "",
      ].join(" ");
    case "file":
      return part.filename ?? "";
    case "source-url":
      return `${part.title ?? ""} ${part.url}`;
    case "data":
      return readSteering(part)?.text ?? "";
    case "reasoning":
    case "step-start":
      return "";
  }
}

/** The text around the first word; null unless every word occurs. */
function findExcerpt(text: string, words: readonly string[]): string | null {
  const lower = text.toLowerCase();
  const places = words.map((word) => lower.indexOf(word));
  if (places.length === 0 || places.includes(-1)) return null;
  const from = Math.max(0, Math.min(...places) - BEFORE);
  const to = Math.min(text.length, from + AROUND);
  const excerpt = text.slice(from, to).toWellFormed();
  return `${from > 0 ? "…" : ""}${excerpt}${to < text.length ? "…" : ""}`;
}
