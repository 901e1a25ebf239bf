import { HubError } from "../../core/error.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import { contentHash, readContent } from "./file_content.ts";
import { Hash, NAMESPACE, Path } from "./parameters.ts";
import { quote, toPlace, type Workspace } from "./workspace.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";
import { assertHash } from "./write_file.ts";

const MAX_LINES_TOLD = 10;

/** `file.edit`: exact replacement of a text. */
export function createEditFile(workspace: Workspace, files: WorkspaceFiles): Operation {
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
    async run({ path, oldText, newText, all = false, hash }, { signal }) {
      const place = toPlace(workspace, path);
      return await files.alone(place, async () => {
        const { bytes, state } = await files.read(place, signal);
        assertHash(place.shown, { bytes, hash });
        const content = readContent(bytes);
        if (content.kind !== "text") {
          throw new HubError("invalid_request", `${quote(place.shown)} is no UTF-8 text`);
        }
        const edited = replaceText(content.text, { oldText, newText, all, shown: place.shown });
        const next = new TextEncoder().encode(edited.text);
        await files.write(place, { bytes: next, expected: state, signal });
        const where = edited.lines.slice(0, MAX_LINES_TOLD).join(", ");
        const times = edited.lines.length === 1 ? "once" : `${edited.lines.length} times`;
        return `Replaced ${times} in ${place.shown} (line ${where}); hash ${contentHash(next)}`;
      });
    },
  });
}

/** The text with replacements, and the lines they begin in. Throws `invalid_request` when they do not fit. */
export function replaceText(
  text: string,
  { oldText, newText, all, shown }: {
    oldText: string;
    newText: string;
    all: boolean;
    shown: string;
  },
): { text: string; lines: number[] } {
  if (oldText === newText) {
    throw new HubError("invalid_request", "oldText and newText are the same");
  }
  // Models write line feeds where a file has both characters.
  const isCrlf = !text.includes(oldText) && text.includes("\r\n") && !oldText.includes("\r");
  const wanted = isCrlf ? oldText.replaceAll("\n", "\r\n") : oldText;
  const given = isCrlf && !newText.includes("\r") ? newText.replaceAll("\n", "\r\n") : newText;
  const pieces = text.split(wanted);
  const lines: number[] = [];
  let line = 1;
  for (const piece of pieces.slice(0, -1)) {
    line += countFeeds(piece);
    lines.push(line);
    line += countFeeds(wanted);
  }
  if (lines.length === 0) {
    throw new HubError(
      "invalid_request",
      `oldText does not occur in ${
        quote(shown)
      }: read the file and copy the text exactly, without the numbers of lines`,
    );
  }
  if (lines.length > 1 && !all) {
    throw new HubError(
      "invalid_request",
      `oldText occurs ${lines.length} times in ${quote(shown)}, in lines ${
        lines.slice(0, MAX_LINES_TOLD).join(", ")
      }: take more of the text around it, or set all`,
    );
  }
  return { text: pieces.join(given), lines };
}

function countFeeds(text: string): number {
  return text.split("\n").length - 1;
}
