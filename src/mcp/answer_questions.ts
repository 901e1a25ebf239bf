import type { Client, ElicitResult } from "@modelcontextprotocol/client";
import { type Clock, doneWithin } from "../core/clock.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { SamplingCaller } from "../core/sampling.ts";
import type { ToolAnswer, ToolContext, ToolQuestion } from "../core/tool.ts";
import { cleanText } from "./clean_text.ts";

/** A call that is under way, and may be asked back. */
export interface Asker {
  /** Aborts when the call is over. */
  signal: AbortSignal;
  ask(question: ToolQuestion): Promise<ToolAnswer>;
  /** Says what the server says; left out where nobody listens. */
  tell?: ToolContext["tell"];
  /** Waits without its silence being counted. */
  pause<T>(wait: () => Promise<T>): Promise<T>;
  sample: ToolContext["sample"];
  caller: SamplingCaller | undefined;
}

/** What servers may ask back; a form's defaults are filled in where they are left out. */
export const QUESTION_CAPABILITIES = {
  elicitation: { form: { applyDefaults: true }, url: {} },
};

const DECLINED = { action: "decline" } as const;
/** A question that nobody has answered by then is declined. */
const ANSWER_MS = 10 * 60_000;
const MAX_MESSAGE_CHARS = 4000;
const MAX_SCHEMA_CHARS = 64 * 1024;
const MAX_URL_CHARS = 2048;
const MAX_OPEN = 4;

/**
 * Hands what a server asks back to the call that it is asked for. The protocol does not say which that is: with several
 * calls under way nobody is asked, lest one caller gets another's question.
 */
export function answerQuestions(
  client: Client,
  { askers, source, clock }: { askers: ReadonlySet<Asker>; source: string; clock: Clock },
): void {
  let open = 0;
  client.setRequestHandler("elicitation/create", async ({ params }): Promise<ElicitResult> => {
    const [asker, ...others] = askers;
    const question = readQuestion(source, params as unknown as JsonObject);
    if (asker === undefined || others.length > 0 || question === null || open >= MAX_OPEN) {
      return DECLINED;
    }
    open++;
    try {
      let answer: ToolAnswer = DECLINED;
      const answered = asker.ask(question).then((given) => {
        answer = given;
      }, () => {});
      const ended = new Promise<void>((resolve) =>
        asker.signal.addEventListener("abort", () => resolve(), { once: true })
      );
      await doneWithin(clock, ANSWER_MS, Promise.race([answered, ended]));
      return answer as ElicitResult;
    } finally {
      open--;
    }
  });
}

/** Null for what nobody could be shown. */
function readQuestion(source: string, params: JsonObject): ToolQuestion | null {
  const message = cleanText(textOf(params["message"]), MAX_MESSAGE_CHARS);
  if (params["mode"] === "url") {
    const url = textOf(params["url"]);
    const isShown = url.length <= MAX_URL_CHARS && URL.canParse(url) &&
      /^https?:$/.test(new URL(url).protocol);
    if (!isShown) return null;
    const id = textOf(params["elicitationId"]).slice(0, 200);
    return { source, kind: "url", message, url: new URL(url).href, id };
  }
  const schema = params["requestedSchema"];
  if (!isJsonObject(schema)) return null;
  const text = JSON.stringify(
    schema,
    (_, value) => typeof value === "string" ? cleanText(value, MAX_MESSAGE_CHARS) : value,
  );
  if (text.length > MAX_SCHEMA_CHARS) return null;
  return { source, kind: "form", message, schema: JSON.parse(text) as JsonObject };
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
