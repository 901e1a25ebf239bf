import type { ModelEvent } from "../core/model.ts";

/**
 * What an answer says in place of a file that its dialect has no form for: the file's address, or its type where it came
 * inline or was left out.
 */
export function fileNote(
  file: Extract<ModelEvent, { type: "file" | "file-left-out" }>,
): string {
  const { mediaType } = file;
  if (file.type === "file-left-out") {
    return `(a file of type ${mediaType} was left out: ${file.reason})`;
  }
  if (!/^data:/i.test(file.url)) return `(file of type ${mediaType}: ${file.url})`;
  return `(the model made a file of type ${mediaType}, which this API cannot carry)`;
}
