import type { Client, ElicitResult } from "@modelcontextprotocol/client";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { secretFieldsOf } from "../core/run_question.ts";
import type { SamplingCaller } from "../core/sampling.ts";
import type { ToolAnswer, ToolContext, ToolQuestion } from "../core/tool.ts";
import { visibleJson, visibleText } from "../core/visible_text.ts";

/** A call that is under way, and may be asked back. */
export interface Asker {
  /** Aborts when the call is over. */
  signal: AbortSignal;
  ask(question: ToolQuestion, signal: AbortSignal): Promise<ToolAnswer>;
  /** Says what the server says; left out where nobody listens. */
  tell?: ToolContext["tell"];
  /** Waits without its silence being counted. */
  pause<T>(wait: () => Promise<T>): Promise<T>;
  sample: ToolContext["sample"];
  caller: SamplingCaller | undefined;
}

/** How what a server asks is answered. */
export interface ServerAnswers {
  elicit(asker: Asker, params: JsonObject, signal: AbortSignal): Promise<Json>;
  sample(asker: Asker, params: JsonObject): Promise<Json>;
  /** Null where the hub has none. */
  roots: Json | null;
  /** Takes what no trace may show. */
  hide(secrets: string[]): void;
}

/** What servers may ask back; a form's defaults are filled in where they are left out. */
export const QUESTION_CAPABILITIES = {
  elicitation: { form: { applyDefaults: true }, url: {} },
};

const DECLINED = { action: "decline" } as const;
const NOTHING_TO_FILL_IN = { type: "object", properties: {} };
const MAX_MESSAGE_CHARS = 4000;
const MAX_SCHEMA_CHARS = 64 * 1024;
const MAX_URL_CHARS = 2048;
/** Questions of one call at a time, and in all: a server that asks on and on is declined. */
const MAX_OPEN = 4;
const MAX_ASKED = 20;

/**
 * Hands what a server asks back to the call that it is asked for. Before revision 2026-07-28 the protocol does not say which
 * that is: with several calls under way nobody is asked, lest one caller gets another's question. Gives what asks for a call
 * that is known.
 */
export function answerQuestions(
  client: Client,
  { askers, source, hide }: {
    askers: ReadonlySet<Asker>;
    source: string;
    /** Takes what no trace may show. */
    hide(secrets: string[]): void;
  },
): ServerAnswers["elicit"] {
  const open = new WeakMap<Asker, number>();
  const asked = new WeakMap<Asker, number>();
  const add = (counts: WeakMap<Asker, number>, asker: Asker, by: number) => {
    const count = (counts.get(asker) ?? 0) + by;
    counts.set(asker, count);
    return count;
  };
  const elicit: ServerAnswers["elicit"] = async (asker, params, wanted) => {
    const question = readQuestion(source, params);
    if (question === null || add(asked, asker, 1) > MAX_ASKED) return DECLINED;
    try {
      if (add(open, asker, 1) > MAX_OPEN) return DECLINED;
      const answer = await askUntil(asker, question, wanted);
      if (question.kind === "form") hide(secretsIn(question.schema, answer));
      return { ...answer };
    } finally {
      add(open, asker, -1);
    }
  };
  client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
    const [asker, ...others] = askers;
    const answer = asker === undefined || others.length > 0
      ? DECLINED
      : await elicit(asker, params as unknown as JsonObject, mcpReq.signal);
    return answer as ElicitResult;
  });
  return elicit;
}

/** An answer with the form's defaults where it leaves fields out. */
export function withDefaults({ requestedSchema: schema }: JsonObject, answer: Json): Json {
  if (!isJsonObject(answer) || answer.action !== "accept" || !isJsonObject(schema)) return answer;
  const fields = isJsonObject(schema.properties) ? Object.entries(schema.properties) : [];
  const defaults = fields.flatMap(([name, field]) =>
    isJsonObject(field) && field.default !== undefined ? [[name, field.default]] : []
  );
  const content = isJsonObject(answer.content) ? answer.content : {};
  return { ...answer, content: { ...Object.fromEntries(defaults), ...content } };
}

/** A question in the protocol's words, for whoever is asked in its place. */
export function elicitationOf({ source, message: text, ...asked }: ToolQuestion): JsonObject {
  const message = `${source}: ${text}`;
  if (asked.kind !== "url") {
    const requestedSchema = asked.kind === "form" ? asked.schema : NOTHING_TO_FILL_IN;
    return { mode: "form", message, requestedSchema };
  }
  const id = asked.id === "" ? {} : { elicitationId: asked.id };
  return { mode: "url", message, url: asked.url, ...id };
}

/** The answer, or a cancellation once nobody waits for it any more. */
async function askUntil(
  asker: Asker,
  question: ToolQuestion,
  wanted: AbortSignal,
): Promise<ToolAnswer> {
  const signal = AbortSignal.any([asker.signal, wanted]);
  const ended = Promise.withResolvers<ToolAnswer>();
  const cancel = () => ended.resolve({ action: "cancel" });
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  // Who cannot be asked has not said no.
  const answered = asker.ask(question, signal).catch((): ToolAnswer => ({ action: "cancel" }));
  return await Promise.race([answered, ended.promise])
    .finally(() => signal.removeEventListener("abort", cancel));
}

function secretsIn(schema: JsonObject, answer: ToolAnswer): string[] {
  const content = answer.action === "accept" ? answer.content ?? {} : {};
  return textsOf(content, secretFieldsOf(schema));
}

/** Answers of a caller whose names say that they are secret: what was asked is not known any more. */
export function secretsGiven(responses: JsonObject): string[] {
  return Object.values(responses).flatMap((answer) => {
    const content = isJsonObject(answer) && isJsonObject(answer.content) ? answer.content : {};
    return textsOf(content, secretFieldsOf({ properties: content }));
  });
}

function textsOf(content: JsonObject, fields: ReadonlySet<string>): string[] {
  return [...fields].flatMap((field) => {
    const value = content[field];
    return typeof value === "string" ? [value] : [];
  });
}

/** Null for what nobody could be shown. */
export function readQuestion(source: string, params: JsonObject): ToolQuestion | null {
  const message = visibleText(textOf(params["message"]).slice(0, 4 * MAX_MESSAGE_CHARS)).trim()
    .slice(0, MAX_MESSAGE_CHARS);
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
  // Names and values too: a choice that looks like another one is shown as what it is.
  const visible = visibleJson(schema);
  if (!isJsonObject(visible) || JSON.stringify(visible).length > MAX_SCHEMA_CHARS) return null;
  return { source, kind: "form", message, schema: visible };
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
