import { isJsonObject, type JsonObject } from "../../core/json.ts";
import type { FunctionDefinition, ModelRequest } from "../../core/model.ts";
import { MAX_CHAT_TOOLS } from "../../core/limits.ts";
import { assertCount, member, refusal } from "../chat_fields.ts";
import { textIn } from "./decode_content.ts";

/** Finds tools that are not loaded yet: here all are offered at once. */
const TOOL_SEARCH = /^tool_search_tool_(?:regex|bm25)(?:_\d{8})?$/;

/** The functions of a request. Throws `invalid_request` for a tool that Anthropic runs, or describes, itself. */
export function decodeTools(body: JsonObject): FunctionDefinition[] {
  const tools = member(body, "tools") ?? [];
  if (!Array.isArray(tools)) throw refusal("tools", "tools must be a list");
  assertCount(tools, "tools", MAX_CHAT_TOOLS);
  return tools.flatMap((tool, index): FunctionDefinition[] => {
    const param = `tools[${index}]`;
    if (!isJsonObject(tool)) throw refusal(param, `${param} must be an object`);
    const type = member(tool, "type") ?? "custom";
    if (typeof type === "string" && TOOL_SEARCH.test(type)) return [];
    if (type !== "custom") throw cannotRun(type, param);
    const callers = member(tool, "allowed_callers");
    if (Array.isArray(callers) && !callers.includes("direct")) {
      throw refusal(
        `${param}.allowed_callers`,
        `${param}.allowed_callers: nothing but the model itself calls tools here, wanted direct`,
      );
    }
    const schema = member(tool, "input_schema") ?? { type: "object", properties: {} };
    if (!isJsonObject(schema)) {
      throw refusal(`${param}.input_schema`, `${param}.input_schema must be a JSON Schema`);
    }
    return [{
      name: textIn(tool, "name", param),
      description: describe(tool),
      parameters: schema,
      strict: tool["strict"] === true,
    }];
  });
}

function cannotRun(type: JsonObject[string], param: string) {
  const what = typeof type === "string" ? type.slice(0, 60) : "a tool of an unknown type";
  return refusal(
    `${param}.type`,
    `${param}.type: ${what} is a tool of Anthropic's own, and the provider of this model has no equivalent`,
  );
}

function describe(tool: JsonObject): string {
  const { description, input_examples: examples } = tool;
  const said = typeof description === "string" ? description : "";
  if (!Array.isArray(examples) || examples.length === 0) return said;
  const lines = examples.map((example) => JSON.stringify(example));
  return [said, `Examples of its input:\n${lines.join("\n")}`].filter(Boolean).join("\n\n");
}

/** What `tool_choice` says. */
export function decodeToolChoice(
  body: JsonObject,
): Pick<ModelRequest, "toolChoice" | "parallelToolCalls"> {
  const choice = member(body, "tool_choice");
  if (choice === null) return {};
  if (!isJsonObject(choice)) throw unknownChoice();
  const disabled = choice["disable_parallel_tool_use"];
  const parallel = disabled === undefined ? {} : { parallelToolCalls: disabled !== true };
  const { type } = choice;
  if (type === "auto") return parallel;
  if (type === "none") return { toolChoice: "none" };
  if (type === "any") return { toolChoice: "required", ...parallel };
  if (type === "tool") {
    return { toolChoice: { name: textIn(choice, "name", "tool_choice") }, ...parallel };
  }
  throw unknownChoice();
}

function unknownChoice() {
  return refusal("tool_choice", "tool_choice.type must be auto, any, tool or none");
}
