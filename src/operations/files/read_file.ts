import { HubError } from "../../core/error.ts";
import { MAX_IMAGE_CHARS } from "../bound_result.ts";
import { DEFAULT_RESULT_BOUNDS, roomWithin } from "../result_bounds.ts";
import { lineRange } from "../line_range.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import { utf8Length } from "../text_lines.ts";
import { contentHash, readContent } from "./file_content.ts";
import { NAMESPACE, Path } from "./parameters.ts";
import { quote, toPlace, type Workspace } from "./workspace.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";

const MAX_LINE_CHARS = 2000;

/** `file.read`: a text with the numbers of its lines, or an image. */
export function createReadFile(workspace: Workspace, files: WorkspaceFiles): Operation {
  const room = roomWithin(workspace.results ?? DEFAULT_RESULT_BOUNDS);
  return defineOperation({
    namespace: NAMESPACE,
    name: "read",
    description:
      "Reads a text file, each line with its number and a colon before it, or an image (PNG, JPEG, GIF, WebP). " +
      "Long files are read in parts by offset and limit. The last line tells how many lines there are, " +
      "and the hash that file.edit and file.write take to make sure that nobody changed the file.",
    input: Type.Object({
      path: Path("The file, relative to the workspace"),
      ...lineRange({ most: room.lines }),
    }),
    effect: "pure",
    outside: "reads",
    inRunsOnly: true,
    async run({ path, offset = 1, limit = room.lines }, { signal }) {
      const place = toPlace(workspace, path);
      const { bytes } = await files.read(place, signal);
      const content = readContent(bytes);
      if (content.kind === "text") {
        const remark = `${bytes.length} bytes, hash ${contentHash(bytes)}`;
        return numberLines(content.text, { offset, limit, remark, maxBytes: room.bytes });
      }
      if (content.kind === "binary") {
        throw new HubError(
          "invalid_request",
          `${
            quote(place.shown)
          } is neither UTF-8 text nor an image: ${bytes.length} bytes of something else`,
        );
      }
      const data = bytes.toBase64();
      if (data.length > MAX_IMAGE_CHARS) {
        throw new HubError(
          "invalid_request",
          `${quote(place.shown)} is an image of ${bytes.length} bytes, too many to be shown`,
        );
      }
      return [
        { type: "text", text: `${place.shown}: ${content.mediaType}, ${bytes.length} bytes` },
        { type: "image", mediaType: content.mediaType, data },
      ];
    },
  });
}

/** Numbered lines from `offset` (1 is the first), and a remark on how to go on. */
export function numberLines(
  text: string,
  { offset, limit, remark, maxBytes }: {
    offset: number;
    limit: number;
    remark: string;
    maxBytes: number;
  },
): string {
  const lines = text === "" ? [] : text.replace(/\r?\n$/, "").split("\n");
  const shown: string[] = [];
  let bytes = 0;
  let at = offset;
  for (; at <= lines.length && shown.length < limit; at++) {
    const numbered = `${at}: ${shorten(lines[at - 1]?.replace(/\r$/, "") ?? "")}`;
    bytes += utf8Length(numbered) + 1;
    if (bytes > maxBytes) break;
    shown.push(numbered);
  }
  const range = shown.length === 0 ? "no lines" : `lines ${offset} to ${at - 1}`;
  const rest = at > lines.length ? "that is the end" : `go on with offset ${at}`;
  return [...shown, `(${range} of ${lines.length}; ${remark}; ${rest})`].join("\n");
}

function shorten(line: string): string {
  if (line.length <= MAX_LINE_CHARS) return line;
  const cut = line.slice(0, MAX_LINE_CHARS).toWellFormed();
  return `${cut}… (${line.length - MAX_LINE_CHARS} more characters in this line)`;
}
