import { readOffer, toolOfferEvent } from "../core/tool_offer_event.ts";
import { isJsonObject } from "../core/json.ts";
import type { UIMessage, UIPart } from "../core/ui_message.ts";
import { FIND_TOOLS } from "../operations/builtin/find_tools.ts";
import type { AgentRun, ToolOffer } from "./agent_run.ts";

/** Most tools of one request, however many were found: some providers refuse more. */
export const MAX_OFFERED = 128;
/** Leaves room for one that is found. */
const MAX_BEGUN = MAX_OFFERED - 1;

/**
 * The event that says which tools a run begins with: those that the run before it ended with, so that the requests of a
 * session begin alike, and behind them what fits the user's words. Anew when that would be twice as many as it may.
 */
export function beginOffer(run: AgentRun, offer: ToolOffer) {
  const { history, wireNames, tools } = run;
  const known = new Set(tools.map(({ name }) => name));
  const last = history.findLast(({ parts }) => parts.some((part) => readOffer(part) !== null));
  const before = last === undefined ? [] : offeredBy(last, wireNames.fromWire) ?? [];
  const words = wordsOf(history);
  const join = (kept: readonly string[]) => {
    const first = [...new Set([...kept, ...offer.pinned])].filter((name) => known.has(name));
    const room = Math.max(0, offer.most - offer.pinned.length);
    return [...new Set([...first, ...offer.search(words, room)])];
  };
  const all = join(before);
  const begun = all.length > Math.min(offer.most * 2, MAX_BEGUN) ? join([]) : all;
  return toolOfferEvent(begun.slice(0, MAX_BEGUN));
}

/**
 * Full names of the tools that a message has offered so far, in the order in which they came: what it began with, then
 * what was found, and what was called all the same. So requests only grow, whoever makes them. Null for one that has
 * begun with all there are.
 */
export function offeredBy(
  { parts }: Pick<UIMessage, "parts">,
  fromWire: (wireName: string) => string | null,
): string[] | null {
  const begun = parts.map(readOffer).find((names) => names !== null);
  if (begun === undefined || begun === null) return null;
  const later = parts.flatMap((part) => part.type === "tool" ? addedBy(part, fromWire) : []);
  const added = [...new Set(later)].filter((name) => !begun.includes(name))
    .slice(-Math.max(1, MAX_OFFERED - begun.length));
  return [...begun.slice(0, MAX_OFFERED - added.length), ...added];
}

function addedBy(
  { toolName, state, output }: Extract<UIPart, { type: "tool" }>,
  fromWire: (wireName: string) => string | null,
): string[] {
  if (toolName !== FIND_TOOLS) return state === "streaming" ? [] : [toolName];
  if (state !== "result" || !isJsonObject(output) || !Array.isArray(output["tools"])) return [];
  return output["tools"].flatMap((tool) => {
    const name = isJsonObject(tool) && typeof tool["name"] === "string" ? tool["name"] : "";
    return fromWire(name) ?? [];
  });
}

/** The texts of the user's last message. */
function wordsOf(history: readonly UIMessage[]): string {
  const parts = history.findLast(({ role }) => role === "user")?.parts ?? [];
  return parts.flatMap((part) => part.type === "text" ? [part.text] : []).join("\n");
}
