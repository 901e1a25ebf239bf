import type { Json } from "../core/json.ts";
import { visibleJson } from "../core/visible_text.ts";
import type { ShownCall, Tool, ToolPreview } from "../core/tool.ts";
import { utf8Length } from "../telemetry/utf8_length.ts";
import { wellFormedJson, wellFormedText } from "../core/well_formed.ts";
import type { AgentRun } from "./agent_run.ts";

/** Most bytes of a preview, as JSON. */
const MAX_PREVIEW_BYTES = 128 * 1024;

const MAX_ERROR_CHARS = 4096;
/** Longest text of arguments that hold what is not seen. */
const MAX_HIDDEN_CHARS = 32 * 1024;

/** What a person is shown of a call, or why there is nothing to ask: it could not be done. Null shows its arguments alone. */
export type Previewed = { ok: true; shown: ShownCall | null } | { ok: false; errorText: string };

/** The arguments as a person can read them, where they hold what is not seen; null where they are seen as they are. */
function showHidden(input: Json): ShownCall | null {
  const visible = JSON.stringify(visibleJson(input), null, 2);
  if (visible === JSON.stringify(input, null, 2)) return null;
  return { preview: { kind: "text", text: visible.slice(0, MAX_HIDDEN_CHARS) } };
}

/** Has a tool say what a call would do, before anybody is asked. Never throws. */
export async function previewCall(
  run: AgentRun,
  { tool, input, toolCallId }: { tool: Tool; input: Json; toolCallId: string },
): Promise<Previewed> {
  if (tool.preview === undefined) return { ok: true, shown: showHidden(input) };
  try {
    const shown = await tool.preview(structuredClone(input), { signal: run.signal });
    const preview = visibleJson(wellFormedJson({ ...shown.preview })) as ToolPreview;
    if (utf8Length(JSON.stringify(preview)) > MAX_PREVIEW_BYTES) {
      return { ok: false, errorText: "Not executed: its preview is too large to be shown" };
    }
    return { ok: true, shown: { ...shown, preview } };
  } catch (error) {
    const facts = { toolCallId, tool: tool.name, error };
    run.log.info("A call that a person would have been asked about cannot be done", facts);
    const message = error instanceof Error && error.message !== "" ? error.message : "unknown";
    return { ok: false, errorText: wellFormedText(message).slice(0, MAX_ERROR_CHARS) };
  }
}
