import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { ModelRequest } from "../../core/model.ts";
import { member, refusal } from "../chat_fields.ts";
import { wrongType } from "../openai_chat/scan_request.ts";
import { threadRefusal } from "./scan_request.ts";

/** What a request says beside its messages and tools, as chat completions say it. */
export type RequestSettings =
  & Pick<ModelRequest, "temperature" | "topP" | "maxOutputTokens" | "responseFormat">
  & { extra: JsonObject };

/** Acted on elsewhere, or without them the answer is the same. */
const TAKEN: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "system",
  "tools",
  "tool_choice",
  "stream",
  "metadata",
  "cache_control",
  "service_tier",
  "diagnostics",
  "billing_policy",
  "user_profile_id",
  "workspace_id",
]);

/** Reads all other fields. Throws `invalid_request` naming one that no chat can carry. */
export function readSettings(body: JsonObject): RequestSettings {
  const settings: RequestSettings = { extra: {} };
  const { extra } = settings;
  let effort: Json = null;
  for (const [name, value] of Object.entries(body)) {
    if (TAKEN.has(name) || value === null) continue;
    if (name === "max_tokens") settings.maxOutputTokens = numberIn(name, value);
    else if (name === "temperature") settings.temperature = numberIn(name, value);
    else if (name === "top_p") settings.topP = numberIn(name, value);
    else if (name === "top_k") extra["top_k"] = numberIn(name, value);
    else if (name === "stop_sequences") {
      if (!Array.isArray(value)) throw wrongType(name, value, "a list");
      if (value.length > 0) extra["stop"] = value;
    } else if (name === "thinking") effort ??= effortOf(value);
    else if (name === "output_config") effort = readOutput(value, settings) ?? effort;
    else if (name === "output_format") readFormat(value, { param: name, settings });
    else if (name === "context_management") checkEdits(value);
    else if (name === "thread") throw threadRefusal(value);
    else if (!saysNothing(name, value)) {
      throw new HubError(
        "invalid_request",
        `${name.slice(0, 80)} cannot be said to the provider of this model; leave it out`,
        { param: name },
      );
    }
  }
  if (effort !== null) extra["reasoning_effort"] = effort;
  return settings;
}

function numberIn(name: string, value: Json): number {
  if (typeof value === "number") return value;
  throw wrongType(name, value, "a number");
}

function saysNothing(name: string, value: Json): boolean {
  if (name === "speed") return value === "standard";
  if (value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  return isJsonObject(value) && Object.keys(value).length === 0;
}

/** A budget as an effort. Thinking as much as seems good, or not at all, is left to the model. */
function effortOf(thinking: Json): string | null {
  if (!isJsonObject(thinking)) throw wrongType("thinking", thinking, "an object");
  const { type, budget_tokens: budget } = thinking;
  if (type !== "enabled") return null;
  if (typeof budget !== "number") throw wrongType("thinking.budget_tokens", budget, "a number");
  if (budget <= 4096) return "low";
  return budget <= 16_384 ? "medium" : "high";
}

function readOutput(config: Json, settings: RequestSettings): string | null {
  if (!isJsonObject(config)) throw wrongType("output_config", config, "an object");
  for (const [name, value] of Object.entries(config)) {
    if (name === "effort" || value === null) continue;
    if (name === "format") readFormat(value, { param: "output_config.format", settings });
    else {
      const param = `output_config.${name.slice(0, 80)}`;
      throw refusal(param, `${param} cannot be said to the provider of this model; leave it out`);
    }
  }
  const effort = member(config, "effort");
  if (effort === null) return null;
  if (typeof effort !== "string") throw wrongType("output_config.effort", effort, "text");
  // High is what holds without it, and Claude Code says it to every model.
  if (effort === "high") return null;
  return effort === "max" ? "xhigh" : effort;
}

function readFormat(
  format: Json,
  { param, settings }: { param: string; settings: RequestSettings },
): void {
  const schema = isJsonObject(format) ? format["schema"] : null;
  if (!isJsonObject(format) || format["type"] !== "json_schema" || !isJsonObject(schema)) {
    throw refusal(param, `${param} must be a json_schema with its schema`);
  }
  settings.responseFormat = { name: "answer", schema };
}

/** Edits that only make long conversations shorter may be left undone; a summary may not. */
function checkEdits(management: Json): void {
  const edits = isJsonObject(management) ? management["edits"] ?? [] : null;
  if (!Array.isArray(edits)) throw wrongType("context_management", management, "a list of edits");
  for (const [index, edit] of edits.entries()) {
    const type = isJsonObject(edit) ? edit["type"] : null;
    if (typeof type === "string" && type.startsWith("clear_")) continue;
    const param = `context_management.edits[${index}]`;
    throw refusal(param, `${param}: the provider of this model edits no context; leave it out`);
  }
}
