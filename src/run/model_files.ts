import { decodeBase64 } from "../core/decode_base64.ts";
import type { HubEvent } from "../core/event.ts";
import { imageTypeOf } from "../core/image_type.ts";
import type { Log } from "../core/log.ts";
import type { CallModel, ModelEvent, ModelMessage, UserContent } from "../core/model.ts";
import { readDataUrl } from "../wire/chat_fields.ts";
import { FileBounds } from "../wire/file_bounds.ts";
import type { SessionFiles } from "./session_files.ts";

/** What a model may read again of the images in its session, the newest first, in bytes. */
const MAX_SHOWN_BYTES = 16 * 1024 * 1024;
/** Stands for an image that is not shown again. */
const NOT_SHOWN = "(an earlier image, not shown again)";

/**
 * The same model, whose files are stored before anything tells of them: events carry links, never a file's bytes. A file
 * that passes a bound, is no image or cannot be stored is left out, and its event says why. In requests, links to images of
 * the session become the images.
 */
export function keepModelFiles(
  callModel: CallModel,
  { files, log, events = [] }: {
    files: SessionFiles;
    log: Log;
    /** What the run's log holds already: its files count. */
    events?: readonly HubEvent[];
  },
): CallModel {
  const bounds = new FileBounds(events.filter(({ type }) => type === "file").length);
  const keep = async (event: ModelEvent): Promise<ModelEvent> => {
    const taken = bounds.take(event);
    const inline = taken.type === "file" ? readDataUrl(taken.url) : null;
    if (taken.type !== "file" || inline === null) return taken;
    const { mediaType } = taken;
    const leftOut = (reason: string, bytes = 0): ModelEvent => (
      { type: "file-left-out", mediaType, bytes, reason }
    );
    let content: Uint8Array;
    try {
      content = await decodeBase64(inline.data);
    } catch {
      return leftOut("its data is not base64");
    }
    const known = imageTypeOf(content);
    if (known === null) return leftOut("its data is no image", content.length);
    try {
      return {
        type: "file",
        mediaType: known,
        url: await files.save({ mediaType: known, content }),
      };
    } catch (error) {
      log.error("A file that the model made could not be stored", { error });
      return leftOut("it could not be stored", content.length);
    }
  };
  return async function* (request, context) {
    const messages = await showImages(request.messages, { files, log });
    for await (const read of callModel({ ...request, messages }, context)) {
      if (!read.some(({ type }) => type === "file")) {
        yield read;
        continue;
      }
      const kept: ModelEvent[] = [];
      for (const event of read) kept.push(event.type === "file" ? await keep(event) : event);
      yield kept;
    }
  };
}

/** The messages with images of the session in the place of links to them, the newest first while there is room. */
async function showImages(
  messages: readonly ModelMessage[],
  { files, log }: { files: SessionFiles; log: Log },
): Promise<ModelMessage[]> {
  const shown = [...messages];
  let left = MAX_SHOWN_BYTES;
  const read = (path: string) =>
    files.read(path).catch((error: unknown) => {
      log.warn("An image of the session could not be read for the model", { error });
      return null;
    });
  const show = async (piece: UserContent): Promise<UserContent> => {
    if (piece.type !== "image" || !isLink(piece)) return piece;
    const file = left > 0 ? await read(piece.url) : null;
    left -= file?.content.length ?? 0;
    if (file === null || left < 0) return { type: "text", text: NOT_SHOWN };
    const { mediaType, content } = file;
    return { ...piece, mediaType, url: `data:${mediaType};base64,${content.toBase64()}` };
  };
  for (let index = shown.length - 1; index >= 0; index--) {
    const message = shown[index];
    if (message?.role !== "user" || !message.content.some(isLink)) continue;
    const content: UserContent[] = [];
    for (const piece of message.content) content.push(await show(piece));
    shown[index] = { role: "user", content };
  }
  return shown;
}

function isLink(piece: UserContent): boolean {
  return piece.type === "image" && piece.url.startsWith("/");
}
