import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { member, refusal, toolChoiceOf, toolsOf } from "../chat_fields.ts";
import { cacheControl } from "./content_blocks.ts";
import type { ModelTraits } from "./model_traits.ts";
import { aliasProperties } from "./property_aliases.ts";
import { STRICT_BOUNDS, type StrictSchema, toStrictSchema } from "./strict_schema.ts";
import { toInputSchema } from "./tool_schema.ts";

const MAX_STRICT_TOOLS = 20;
const CHOICES = { auto: "auto", none: "none", required: "any" } as const;

/** The members of a native request that are about tools, and by tool the other names of properties. */
export function encodeTools(
  chat: JsonObject,
  { structured }: ModelTraits,
): { members: JsonObject; aliases: Map<string, ReadonlyMap<string, string>> } {
  const aliases = new Map<string, ReadonlyMap<string, string>>();
  const { mode, names } = toolChoiceOf(chat);
  const wire = Array.isArray(chat["tools"]) ? chat["tools"] : [];
  const left = { ...STRICT_BOUNDS, tools: structured ? MAX_STRICT_TOOLS : 0 };
  const [name] = names ?? [];
  const isNamed = mode === "required" && names?.length === 1 && name !== undefined;
  const offered = toolsOf(chat);
  const tools = offered.flatMap((tool, index): JsonObject[] => {
    // A choice among some leaves the others out.
    if (names !== null && !isNamed && !names.includes(tool.name)) return [];
    const aliased = tool.parameters === null ? null : aliasProperties(tool.parameters);
    if (aliased !== null && aliased.aliases.size > 0) aliases.set(tool.name, aliased.aliases);
    const param = `tools[${index}].function.parameters`;
    const schema = toInputSchema(aliased?.schema ?? null, param);
    const strict = tool.strict ? withinBounds(toStrictSchema(schema), left) : null;
    const own = wire[index];
    return [{
      name: tool.name,
      ...(tool.description === "" ? {} : { description: tool.description }),
      input_schema: strict ?? schema,
      ...(strict === null ? {} : { strict: true }),
      ...(isJsonObject(own) ? markOf(own) : {}),
    }];
  });
  if (tools.length === 0) {
    if (offered.length === 0) return { members: {}, aliases };
    throw refusal("tool_choice", "tool_choice allows none of the tools");
  }
  const single = member(chat, "parallel_tool_calls") === false && mode !== "none";
  const type = isNamed ? "tool" : CHOICES[mode];
  const choice = {
    type,
    ...(isNamed ? { name } : {}),
    ...(single ? { disable_parallel_tool_use: true } : {}),
  };
  const members = { tools, tool_choice: type === "auto" && !single ? null : choice };
  return { members, aliases };
}

/** The schema if there is still room for it in the request, which it then takes. */
function withinBounds(
  schema: StrictSchema | null,
  left: { optional: number; unions: number; tools: number },
): JsonObject | null {
  if (schema === null || left.tools === 0) return null;
  if (schema.optional > left.optional || schema.unions > left.unions) return null;
  left.tools--;
  left.optional -= schema.optional;
  left.unions -= schema.unions;
  return schema.schema;
}

/** A breakpoint on a tool, or on its function. */
function markOf(tool: JsonObject): JsonObject {
  const fn = tool["function"];
  return { ...(isJsonObject(fn) ? cacheControl(fn) : {}), ...cacheControl(tool) };
}
