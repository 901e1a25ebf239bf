import { HubError } from "../../core/error.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import { contentHash, readContent } from "./file_content.ts";
import { Hash, NAMESPACE, Path } from "./parameters.ts";
import { quote, toPlace, type Workspace } from "./workspace.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";
import { assertShown, contentState } from "./shown_state.ts";
import { assertHash, previewOf } from "./write_file.ts";

const MAX_LINES_TOLD = 10;

/** `file.edit`: exact replacement of a text. */
export function createEditFile(workspace: Workspace, files: WorkspaceFiles): Operation {
  const limits = { maxBytes: workspace.maxFileBytes };
  return defineOperation({
    namespace: NAMESPACE,
    name: "edit",
    description:
      "Replaces a text in a file by another one. oldText must be exactly what is in the file, " +
      "spaces and line ends included but without the numbers of lines that file.read shows, and occur once, " +
      "unless all is true. Nothing is changed when it does not fit.",
    input: Type.Object({
      path: Path("The file, relative to the workspace"),
      oldText: Type.String({ minLength: 1, description: "What is there now" }),
      newText: Type.String({ description: "What is to be there instead; empty removes it" }),
      all: Type.Optional(
        Type.Boolean({ description: "Whether each occurrence is replaced; false when left out" }),
      ),
      hash: Hash,
    }),
    effect: "effect",
    risk: "medium",
    inRunsOnly: true,
    async preview(wish, { signal }) {
      const place = toPlace(workspace, wish.path);
      const { bytes } = await files.read(place, signal);
      const { before, text } = editText(bytes, { ...wish, ...limits, shown: place.shown });
      return { preview: previewOf(place, { before, after: text }), state: contentState(bytes) };
    },
    async run(wish, { signal, shownState }) {
      const place = toPlace(workspace, wish.path);
      return await files.alone(place, async () => {
        const { bytes, state } = await files.read(place, signal);
        assertShown(place.shown, { found: contentState(bytes), wanted: shownState });
        const edited = editText(bytes, { ...wish, ...limits, shown: place.shown });
        const next = new TextEncoder().encode(edited.text);
        await files.write(place, { bytes: next, expected: state, signal });
        const times = edited.times === 1 ? "once" : `${edited.times} times`;
        const where = `(line ${edited.lines.join(", ")})`;
        return `Replaced ${times} in ${place.shown} ${where}; hash ${contentHash(next)}`;
      });
    },
  });
}

/** The content of a file as a text, and edited. */
function editText(
  bytes: Uint8Array,
  { oldText, newText, all = false, hash, shown, maxBytes }: {
    oldText: string;
    newText: string;
    all?: boolean;
    hash?: string;
    shown: string;
    maxBytes: number;
  },
): ReturnType<typeof replaceText> & { before: string } {
  assertHash(shown, { bytes, hash });
  const content = readContent(bytes);
  if (content.kind !== "text") {
    throw new HubError("invalid_request", `${quote(shown)} is no UTF-8 text`);
  }
  const { text: before } = content;
  return { before, ...replaceText(before, { oldText, newText, all, shown, maxBytes }) };
}

/**
 * The text with replacements, how many they are, and the lines that the first of them begin in. Throws `invalid_request`
 * when they do not fit, or when the text would have more than `maxBytes` by them: before it is made.
 */
export function replaceText(
  text: string,
  { oldText, newText, all, shown, maxBytes }: {
    oldText: string;
    newText: string;
    all: boolean;
    shown: string;
    maxBytes: number;
  },
): { text: string; times: number; lines: number[] } {
  if (oldText === newText) {
    throw new HubError("invalid_request", "oldText and newText are the same");
  }
  // Models write line feeds where a file has both characters.
  const isCrlf = !text.includes(oldText) && text.includes("\r\n") && !oldText.includes("\r");
  const wanted = isCrlf ? oldText.replaceAll("\n", "\r\n") : oldText;
  const given = isCrlf && !newText.includes("\r") ? newText.replaceAll("\n", "\r\n") : newText;
  const pieces = text.split(wanted);
  const times = pieces.length - 1;
  if (times === 0) {
    throw new HubError(
      "invalid_request",
      `oldText does not occur in ${
        quote(shown)
      }: read the file and copy the text exactly, without the numbers of lines`,
    );
  }
  const lines: number[] = [];
  let line = 1;
  for (const piece of pieces.slice(0, Math.min(times, MAX_LINES_TOLD))) {
    line += countFeeds(piece);
    lines.push(line);
    line += countFeeds(wanted);
  }
  if (times > 1 && !all) {
    throw new HubError(
      "invalid_request",
      `oldText occurs ${times} times in ${quote(shown)}, in lines ${
        lines.join(", ")
      }: take more of the text around it, or set all`,
    );
  }
  const length = text.length + times * (given.length - wanted.length);
  if (length > maxBytes) {
    throw new HubError(
      "invalid_request",
      `${quote(shown)} would have at least ${length} bytes, and a file may have ${maxBytes}`,
    );
  }
  return { text: pieces.join(given), times, lines };
}

function countFeeds(text: string): number {
  return text.split("\n").length - 1;
}
