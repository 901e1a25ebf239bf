import { HubError, toHubError } from "../../core/error.ts";
import type { HubEvent } from "../../core/event.ts";
import { createFold } from "../../core/fold.ts";
import type { IdSource } from "../../core/id.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import { StepWriter } from "../../core/step_writer.ts";
import { NO_USAGE } from "../../core/usage.ts";
import { stepReason } from "../../inference/step_reason.ts";
import { type Ending, terminalEvents } from "../../inference/terminal.ts";
import { withCosts } from "../../providers/target.ts";
import { FileBounds } from "../../wire/file_bounds.ts";
import { decodeChatAnswer } from "../../wire/openai_chat/decode_answer.ts";
import { DONE_FRAME, renderUiEvent } from "../../wire/ui_stream.ts";
import type { ByteSource } from "../byte_source.ts";
import type { ShownAnswer } from "./completion_reply.ts";

/** What a UIMessage stream of a proxied request needs. */
export interface UiStreamOptions {
  ids: IdSource;
}

/**
 * A proxied chat stream as a UIMessage stream of one step, valid by `checkLog`. Nothing of it is stored, so that it
 * names no run and no session. Tools are the client's: calls stay without output, and the run is `waiting`.
 */
export function chatUiSource(
  opened: Promise<ShownAnswer>,
  options: UiStreamOptions & { model: string },
): ByteSource {
  const events = renderAnswer(opened, options);
  let gone = false;
  opened.catch(() => {});
  return {
    async pull() {
      const { value, done } = await events.next();
      return done === true ? null : value;
    },
    cancel() {
      if (gone) return;
      gone = true;
      opened.then(
        (answer) => answer.cancel(new HubError("client_closed", "The client left")),
        () => {},
      );
    },
  };
}

async function* renderAnswer(
  opened: Promise<ShownAnswer>,
  { ids, model }: UiStreamOptions & { model: string },
): AsyncGenerator<Uint8Array, void, void> {
  let seq = 0;
  const fold = createFold();
  const render = (events: readonly HubEvent[]) =>
    joinBytes(events.map((event) => {
      fold.apply(event);
      return renderUiEvent(event, ++seq);
    }));
  const writer = new StepWriter({ firstPart: 0, mintCallId: () => ids.next("call") });
  yield render([
    { type: "start", messageId: ids.next("msg"), model },
    { type: "step-start", step: 0 },
  ]);
  // Nothing of the answer is stored: an image stays a `data:` URL, held to the bounds of stored ones.
  const bounds = new FileBounds();
  let answer: ShownAnswer | null = null;
  let metadata = { model, provider: "" };
  let ending: Ending;
  try {
    const begun = await opened;
    answer = begun;
    const { from } = begun;
    metadata = { model: from.model, provider: from.provider };
    writer.push([{ type: "response-start", ...metadata, attempt: 0 }]);
    for await (const read of decodeChatAnswer(() => begun.read())) {
      const events = writer.push(withCosts(read, from).map((event) => bounds.take(event)));
      if (events.length > 0) yield render(events);
    }
    const events = [...writer.end(), ...writer.endCalls()];
    const finishReason = stepReason(writer.finishReason ?? "unknown", writer.calls.length);
    const usage = writer.usage ?? { ...NO_USAGE };
    yield render([...events, { type: "step-finish", step: 0, finishReason, usage }]);
    // Calls of a proxied request are executed by the client, which sends their results in its next request.
    const waits = finishReason !== "content-filter" && fold.open().calls.length > 0;
    ending = { kind: "finish", finishReason: waits ? "waiting" : finishReason };
  } catch (error) {
    const failure = toHubError(error);
    // An error that the decoder found leaves the rest unread: the answer gives its place back and is accounted.
    answer?.cancel(failure);
    const rest = writer.end();
    if (rest.length > 0) yield render(rest);
    const { clientCode: code, message: errorText, kind: { retryable } } = failure;
    ending = { kind: "error", errorText, code, retryable };
  }
  const { usage, costMicros } = writer;
  yield render(terminalEvents(fold, ending, {
    ...(usage === null ? {} : { stepUsage: usage }),
    costMicros,
    metadata,
  }));
  yield DONE_FRAME;
}
