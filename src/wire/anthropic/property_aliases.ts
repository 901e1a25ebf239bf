import { createHash } from "node:crypto";
import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../../core/json.ts";
import { pointerStep } from "../inline_refs.ts";
import { mapSubschemas } from "../map_subschemas.ts";
import { renameKeys } from "../rename_keys.ts";
import { toDraft2020 } from "./tool_schema.ts";

/** What the API takes as a property of an `input_schema`; one that is none has it refuse the whole request. */
const PROPERTY = /^[a-zA-Z0-9_.-]{1,64}$/;
const MAX_READABLE = 55;
/** Data whose keys are properties too. */
const DATA = ["enum", "const", "default", "examples"];

/** The schema with names for properties that the API takes, and the name in place of each that it does not. */
export interface AliasedSchema {
  schema: JsonSchema;
  aliases: ReadonlyMap<string, string>;
}

/** Gives each property that the API refuses another name, the same wherever it stands, and the same each time. */
export function aliasProperties(parameters: JsonSchema): AliasedSchema {
  const names = new Set<string>();
  collect(parameters, names);
  const aliases = new Map<string, string>();
  for (const name of [...names].sort()) {
    if (PROPERTY.test(name)) continue;
    const alias = aliasOf(name, names);
    names.add(alias);
    aliases.set(name, alias);
  }
  if (aliases.size === 0) return { schema: parameters, aliases };
  return { schema: rename(toDraft2020(parameters), aliases) as JsonSchema, aliases };
}

/** Turns with the arguments of their calls as the aliased schemas have them. */
export function aliasCalls(
  messages: readonly JsonObject[],
  tools: ReadonlyMap<string, ReadonlyMap<string, string>>,
): JsonObject[] {
  if (tools.size === 0) return [...messages];
  return messages.map((message) => {
    const { content } = message;
    if (!Array.isArray(content)) return message;
    const blocks = content.map((block) => {
      if (!isJsonObject(block) || block["type"] !== "tool_use") return block;
      const aliases = tools.get(String(block["name"]));
      if (aliases === undefined) return block;
      return { ...block, input: renameKeys(block["input"] ?? {}, aliases) };
    });
    return { ...message, content: blocks };
  });
}

/** Names of properties anywhere in the schema. */
function collect(schema: Json, names: Set<string>): void {
  if (!isJsonObject(schema)) return;
  const { properties } = schema;
  if (isJsonObject(properties)) { for (const name of Object.keys(properties)) names.add(name); }
  mapSubschemas(schema, (sub) => {
    collect(sub, names);
    return sub;
  });
}

function aliasOf(name: string, taken: ReadonlySet<string>): string {
  const readable = name.replaceAll(/[^a-zA-Z0-9_.-]/g, "_").slice(0, MAX_READABLE);
  const hash = createHash("sha256").update(name).digest("hex");
  for (let at = 0;; at++) {
    const alias = `${readable}_${hash.slice(at, at + 8)}`;
    if (!taken.has(alias)) return alias;
  }
}

function rename(value: Json, aliases: ReadonlyMap<string, string>): Json {
  if (!isJsonObject(value)) return value;
  const made: JsonObject = { ...mapSubschemas(value, (sub) => rename(sub, aliases)) };
  const own = (name: Json) => typeof name === "string" ? aliases.get(name) ?? name : name;
  const keys = (member: string, change: (item: Json, name: string) => Json) => {
    const named = made[member];
    if (!isJsonObject(named)) return;
    const entries = Object.entries(named).map(([name, item]) => [own(name), change(item, name)]);
    made[member] = Object.fromEntries(entries);
  };
  keys("properties", (item, name) => aliases.has(name) ? titled(item, name) : item);
  keys("dependentSchemas", (item) => item);
  keys("dependentRequired", (item) => Array.isArray(item) ? item.map(own) : item);
  const { required, $ref: ref } = made;
  if (Array.isArray(required)) made["required"] = required.map(own);
  if (typeof ref === "string") {
    made["$ref"] = ref.replaceAll(
      /\/properties\/([^/]+)/g,
      (_, step: string) => `/properties/${aliases.get(pointerStep(step)) ?? step}`,
    );
  }
  for (const member of DATA) {
    const data = made[member];
    if (data !== undefined) made[member] = renameKeys(data, aliases);
  }
  return made;
}

/** The model reads what the tool calls it. */
function titled(schema: Json, name: string): Json {
  if (!isJsonObject(schema)) return schema === true ? { title: name } : schema;
  return "title" in schema ? schema : { title: name, ...schema };
}
