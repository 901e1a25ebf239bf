import { HubError, toHubError } from "../../core/error.ts";
import type { HubEvent } from "../../core/event.ts";
import type { IdSource } from "../../core/id.ts";
import { StepWriter } from "../../core/step_writer.ts";
import { NO_USAGE } from "../../core/usage.ts";
import { withCosts } from "../../providers/target.ts";
import type { Answer } from "../../router/open_answer.ts";
import { decodeChatAnswer } from "../../wire/openai_chat/decode_answer.ts";
import { DONE_FRAME, renderUiEvent } from "../../wire/ui_stream.ts";
import type { ByteSource } from "../byte_source.ts";

/** What a UIMessage stream of a proxied request needs. */
export interface UiStreamOptions {
  ids: IdSource;
}

/**
 * A proxied chat stream as a UIMessage stream of one step. Nobody executes its tool calls and nothing of it is stored;
 * ids of run and session are minted for the stream alone.
 */
export function chatUiSource(
  opened: Promise<Answer>,
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
  opened: Promise<Answer>,
  { ids, model }: UiStreamOptions & { model: string },
): AsyncGenerator<Uint8Array, void, void> {
  let seq = 0;
  const render = (events: readonly HubEvent[]) => {
    const frames = events.map((event) => renderUiEvent(event, ++seq));
    const whole = new Uint8Array(frames.reduce((sum, frame) => sum + frame.length, 0));
    let at = 0;
    for (const frame of frames) {
      whole.set(frame, at);
      at += frame.length;
    }
    return whole;
  };
  const writer = new StepWriter({ firstPart: 0, mintCallId: () => ids.next("call") });
  yield render([
    {
      type: "start",
      messageId: ids.next("msg"),
      runId: ids.next("run"),
      sessionId: ids.next("ses"),
      model,
    },
    { type: "step-start", step: 0 },
  ]);
  let failure: HubError | null = null;
  let metadata = { model, provider: "" };
  try {
    const answer = await opened;
    const { target } = answer.attempt;
    metadata = { model: target.model, provider: target.provider };
    writer.push([{ type: "response-start", ...metadata, attempt: 0 }]);
    for await (const read of decodeChatAnswer(() => answer.read())) {
      const events = writer.push(withCosts(read, target));
      if (events.length > 0) yield render(events);
    }
  } catch (error) {
    failure = toHubError(error);
  }
  const finishReason = failure !== null
    ? "error"
    : writer.finishReason === null || writer.finishReason === "unknown"
    ? "stop"
    : writer.finishReason;
  const usage = writer.usage ?? { ...NO_USAGE };
  const last: HubEvent[] = [...writer.end(), ...writer.endCalls()];
  last.push({ type: "step-finish", step: 0, finishReason, usage });
  if (failure !== null) {
    const { code, message, kind: { retryable } } = failure;
    last.push({ type: "error", errorText: message, code, retryable });
  }
  // Calls of a proxied request are answered by the client, in its next request.
  last.push({ type: "finish", finishReason, usage, costMicros: writer.costMicros, metadata });
  yield render(last);
  yield DONE_FRAME;
}
