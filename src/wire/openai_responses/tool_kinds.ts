import { createHash } from "node:crypto";
import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../../core/json.ts";
import { member } from "../chat_fields.ts";

/** A tool as the client knows it; the model knows it as a function under its wire name. */
export interface ClientTool {
  kind: ToolKind;
  name: string;
  namespace: string | null;
}

/** Tools whose calls the client carries out. */
export type ToolKind =
  | "function"
  | "custom"
  | "local_shell"
  | "shell"
  | "apply_patch"
  | "tool_search";

/** How a kind of tool is said as a function, and its calls as items. */
interface KindFacts {
  callType: string;
  outputType: string;
  /** What the model is told when the client says nothing of its own. */
  description: string;
  parameters: JsonSchema;
  /** The members of a call's item, from the arguments that the model wrote. */
  toItem(argumentsText: string): JsonObject;
  /** The arguments that the model wrote, from a call's item. */
  fromItem(item: JsonObject): string;
}

const STRING: Json = { type: "string" };
const NUMBER: Json = { type: "number" };

/** The kinds, one row each. */
export const TOOL_KINDS: Readonly<Record<ToolKind, KindFacts>> = {
  function: {
    callType: "function_call",
    outputType: "function_call_output",
    description: "",
    parameters: { type: "object", properties: {} },
    toItem: (text) => ({ arguments: text }),
    fromItem: (item) => typeof item["arguments"] === "string" ? item["arguments"] : "",
  },
  custom: {
    callType: "custom_tool_call",
    outputType: "custom_tool_call_output",
    description: "",
    parameters: objectOf({ input: { ...STRING, description: "The whole input, as it is" } }),
    toItem(text) {
      const { input } = parse(text);
      return { input: typeof input === "string" ? input : text };
    },
    fromItem: (item) => JSON.stringify({ input: member(item, "input") }),
  },
  local_shell: {
    callType: "local_shell_call",
    outputType: "local_shell_call_output",
    description: "Runs a command in the user's shell and gives its output.",
    parameters: objectOf({ command: { type: "array", items: STRING } }, {
      working_directory: STRING,
      timeout_ms: NUMBER,
      env: { type: "object", additionalProperties: STRING },
    }),
    toItem(text) {
      const { command, env, working_directory, timeout_ms } = parse(text);
      return {
        action: {
          type: "exec",
          command: texts(command),
          env: isJsonObject(env) ? env : {},
          timeout_ms: timeout_ms ?? null,
          working_directory: working_directory ?? null,
          user: null,
        },
      };
    },
    fromItem(item) {
      const { type: _type, ...rest } = objectIn(item, "action");
      return JSON.stringify(rest);
    },
  },
  shell: {
    callType: "shell_call",
    outputType: "shell_call_output",
    description: "Runs commands in the user's shell, each by itself, and gives their outputs.",
    parameters: objectOf({ commands: { type: "array", items: STRING } }, {
      timeout_ms: NUMBER,
      max_output_length: NUMBER,
    }),
    toItem(text) {
      const { commands, timeout_ms, max_output_length } = parse(text);
      const action = {
        commands: texts(commands),
        timeout_ms: timeout_ms ?? null,
        max_output_length: max_output_length ?? null,
      };
      return { action, environment: { type: "local" } };
    },
    fromItem: (item) => JSON.stringify(objectIn(item, "action")),
  },
  apply_patch: {
    callType: "apply_patch_call",
    outputType: "apply_patch_call_output",
    description: "Creates, updates or deletes one file. `diff` is in the V4A format, " +
      "left out when a file is deleted.",
    parameters: objectOf({
      operation: objectOf({
        type: { enum: ["create_file", "update_file", "delete_file"] },
        path: STRING,
      }, { diff: STRING }),
    }),
    toItem: (text) => ({ operation: objectIn(parse(text), "operation") }),
    fromItem: (item) => JSON.stringify({ operation: objectIn(item, "operation") }),
  },
  tool_search: {
    callType: "tool_search_call",
    outputType: "tool_search_output",
    description: "Finds further tools.",
    parameters: objectOf({ query: STRING }),
    toItem: (text) => ({ arguments: parse(text), execution: "client" }),
    fromItem: (item) => JSON.stringify(member(item, "arguments") ?? {}),
  },
};

/** The kind whose calls are items of this type; null for another item. */
export function kindOfCall(itemType: unknown): ToolKind | null {
  return kindWhere(({ callType }) => callType === itemType);
}

/** The kind whose results are items of this type; null for another item. */
export function kindOfOutput(itemType: unknown): ToolKind | null {
  return kindWhere(({ outputType }) => outputType === itemType);
}

function kindWhere(holds: (facts: KindFacts) => boolean): ToolKind | null {
  const found = Object.entries(TOOL_KINDS).find(([, facts]) => holds(facts));
  return found === undefined ? null : found[0] as ToolKind;
}

const MAX_NAME_LENGTH = 64;

/** The function's name that the model sees. A tool of a namespace has both names in it, a long one their hash. */
export function wireNameOf({ name, namespace }: Pick<ClientTool, "name" | "namespace">): string {
  if (namespace === null) return name;
  const joined = `${namespace}__${name}`;
  if (/^[\w-]+$/.test(joined) && joined.length <= MAX_NAME_LENGTH) return joined;
  const hash = createHash("sha256").update(JSON.stringify([namespace, name])).digest("hex");
  return `${joined.replace(/[^\w-]/g, "_").slice(0, MAX_NAME_LENGTH - 11)}_${hash.slice(0, 10)}`;
}

function objectOf(required: JsonObject, optional: JsonObject = {}): JsonObject {
  return {
    type: "object",
    properties: { ...required, ...optional },
    required: Object.keys(required),
    additionalProperties: false,
  };
}

/** The arguments as an object, empty when the model wrote something else. */
function parse(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}

function objectIn(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

function texts(value: Json | undefined): Json[] {
  if (typeof value === "string") return [value];
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}
