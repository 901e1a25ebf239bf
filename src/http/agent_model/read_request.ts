import type { AnswerFormat } from "../../core/answer_format.ts";
import type { IdSource } from "../../core/id.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { UIMessage, UIPart } from "../../core/ui_message.ts";
import { HANDED_FIELD } from "../../mcp/read_handed.ts";
import {
  checkFields,
  mediaOf,
  member,
  messagesOf,
  partsOf,
  refusal,
  responseFormatOf,
  textOfPart,
} from "../../wire/chat_fields.ts";

/** What a chat request asks of an agent. */
export interface AgentRequest {
  /** What was said before, in order. */
  earlier: UIMessage[];
  /** What the run answers. */
  parts: UIPart[];
  format: AnswerFormat | null;
  /** Whether what tools have answered is told. */
  toolResults: boolean;
}

/** Messages that a request may bring. */
const MAX_MESSAGES = 10_000;

const CARRIED: ReadonlySet<string> = new Set([
  "messages",
  "response_format",
  "budget",
  "preflight",
  "tool_results",
  HANDED_FIELD,
]);

/** Values that say what holds anyway, which some clients send always. */
const NEUTRAL: Readonly<JsonObject> = { temperature: 1, top_p: 1, tool_choice: "auto" };

/**
 * Reads a chat request for an agent. Throws `invalid_request` with the `param` for what agents do not take: their
 * tools and their sampling are the operator's choice, and nothing is dropped in silence.
 */
export function readAgentRequest(
  chat: JsonObject,
  { agent, ids }: { agent: string; ids: Pick<IdSource, "next"> },
): AgentRequest {
  for (const name of ["tools", "functions"]) {
    const given = member(chat, name);
    if (given === null || (Array.isArray(given) && given.length === 0)) continue;
    throw refusal(name, `The agent ${agent} has tools of its own, and calls none of its caller's`);
  }
  const rest = Object.entries(chat).filter(([name, value]) => NEUTRAL[name] !== value);
  checkFields(Object.fromEntries(rest), { carried: CARRIED, provider: `The agent ${agent}` });
  const toolResults = member(chat, "tool_results");
  if (toolResults !== null && typeof toolResults !== "boolean") {
    throw refusal("tool_results", "tool_results must be true or false");
  }
  const given = messagesOf(chat);
  if (given.length > MAX_MESSAGES) {
    throw refusal(
      "messages",
      `${given.length} messages came; an agent takes ${MAX_MESSAGES} at most`,
    );
  }
  const messages = given.map((message, index) => readMessage(message, { index, ids }));
  const last = messages.pop();
  if (last?.role !== "user") {
    throw refusal(
      "messages",
      `The last message must be the user's, but its role is ${last?.role ?? "none"}`,
    );
  }
  if (last.parts.length === 0) {
    throw refusal(`messages[${messages.length}]`, "The last message has neither text nor a file");
  }
  const format = responseFormatOf(chat);
  return {
    earlier: messages.filter(({ parts }) => parts.length > 0),
    parts: last.parts,
    format: format === null ? null : { schema: format.schema },
    toolResults: toolResults === true,
  };
}

const ROLES: Readonly<Record<string, UIMessage["role"]>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
};

function readMessage(
  message: JsonObject,
  { index, ids }: { index: number; ids: Pick<IdSource, "next"> },
): UIMessage {
  const param = `messages[${index}]`;
  const name = message["role"];
  const role = typeof name === "string" && Object.hasOwn(ROLES, name) ? ROLES[name] : undefined;
  if (role === undefined) {
    throw refusal(
      `${param}.role`,
      `${param}.role must be system, developer, user or assistant: an agent's calls of tools are its own`,
    );
  }
  const calls: Json = member(message, "tool_calls");
  if (Array.isArray(calls) && calls.length > 0) {
    throw refusal(
      `${param}.tool_calls`,
      `${param} has calls of tools; an agent takes what was said alone`,
    );
  }
  const path = `${param}.content`;
  const parts = partsOf(message["content"], path).flatMap((part, at) =>
    readPart(part, { role, at, param: `${path}[${at}]` })
  );
  return { id: ids.next("msg"), role, parts };
}

function readPart(
  part: JsonObject,
  { role, at, param }: { role: UIMessage["role"]; at: number; param: string },
): UIPart[] {
  const text = textOfPart(part);
  if (text !== null) {
    return text === "" ? [] : [{ type: "text", id: `text-${at}`, text, state: "done" }];
  }
  const { type } = part;
  if (role !== "user" || (type !== "image_url" && type !== "input_audio" && type !== "file")) {
    throw refusal(param, `${param} must be text${role === "user" ? ", an image or a file" : ""}`);
  }
  const { url, mediaType } = mediaOf(part, param);
  if (!/^(https?:\/\/|data:)/i.test(url)) {
    throw refusal(param, `${param} must bring an http or https address or a data URL`);
  }
  const file = part["file"];
  const filename = isJsonObject(file) ? file["filename"] : undefined;
  return [{
    type: "file",
    mediaType: mediaType ?? (type === "image_url" ? "image/*" : "application/octet-stream"),
    url,
    ...typeof filename === "string" ? { filename: filename.slice(0, 1000) } : {},
  }];
}
