import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { FunctionDefinition, ToolChoice } from "../../core/model.ts";
import { member, refusal } from "../chat_fields.ts";
import { type ClientTool, TOOL_KINDS, type ToolKind, wireNameOf } from "./tool_kinds.ts";

/** The tools of a request. */
export interface DecodedTools {
  definitions: FunctionDefinition[];
  /** What the client knows each wire name as. */
  known: Map<string, ClientTool>;
  /** As they came, without those that no model is offered here. */
  shown: JsonObject[];
  /** Which those are, as `tools[3] (web_search)`. */
  leftOut: string[];
}

/** Run by OpenAI when the model likes; without them it answers from what it knows. */
const OPTIONAL_HOSTED = /^web_search(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?$/;

/** Makes functions of the client's tools. Throws `invalid_request` for one that the hub would have to run itself. */
export function decodeTools(tools: readonly JsonObject[], param = "tools"): DecodedTools {
  const decoded: DecodedTools = { definitions: [], known: new Map(), shown: [], leftOut: [] };
  const add = (kind: ToolKind, tool: JsonObject, place: string, namespace: JsonObject | null) => {
    const hasName = kind === "function" || kind === "custom";
    const name = hasName ? tool["name"] : kind;
    if (typeof name !== "string" || name === "") {
      throw refusal(`${place}.name`, `${place}.name must be the tool's name`);
    }
    const known = { kind, name, namespace: namespace === null ? null : String(namespace["name"]) };
    const wireName = wireNameOf(known);
    if (decoded.known.has(wireName)) {
      throw refusal(`${place}.name`, `${place}: another tool is called ${wireName} too`);
    }
    decoded.known.set(wireName, known);
    const { parameters } = tool;
    const takesOwn = kind === "function" || kind === "tool_search";
    decoded.definitions.push({
      name: wireName,
      description: describe(kind, tool, namespace),
      parameters: takesOwn && isJsonObject(parameters) ? parameters : TOOL_KINDS[kind].parameters,
      strict: kind === "function" && tool["strict"] === true,
    });
  };
  for (const [index, tool] of tools.entries()) {
    const place = `${param}[${index}]`;
    const { type } = tool;
    if (typeof type === "string" && OPTIONAL_HOSTED.test(type)) {
      decoded.leftOut.push(`${place} (${type})`);
      continue;
    }
    decoded.shown.push(tool);
    if (type === "namespace") {
      for (const [inner, nested] of objectsOf(tool["tools"], `${place}.tools`).entries()) {
        add(
          functionKind(nested, `${place}.tools[${inner}]`),
          nested,
          `${place}.tools[${inner}]`,
          tool,
        );
      }
    } else if (type === "tool_search" && tool["execution"] !== "client") {
      // Whatever could be searched for is offered at once.
    } else add(clientKind(tool, place), tool, place, null);
  }
  return decoded;
}

/** The tools of both; the first one's come first. */
export function joinTools(a: DecodedTools, b: DecodedTools): DecodedTools {
  const isNew = ({ name }: FunctionDefinition) => !a.known.has(name);
  return {
    definitions: [...a.definitions, ...b.definitions.filter(isNew)],
    known: new Map([...b.known, ...a.known]),
    shown: a.shown,
    leftOut: [...a.leftOut, ...b.leftOut],
  };
}

/** A member that must be a list of objects, empty when it is not there. */
export function objectsOf(value: Json | undefined, param: string): JsonObject[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value) && value.every(isJsonObject)) return value;
  throw refusal(param, `${param} must be a list of objects`);
}

function functionKind(tool: JsonObject, place: string): ToolKind {
  const { type } = tool;
  if (type === "function" || type === "custom") return type;
  throw refusal(`${place}.type`, `${place} must be a function or a custom tool`);
}

function clientKind(tool: JsonObject, place: string): ToolKind {
  const { type } = tool;
  if (typeof type !== "string" || !Object.hasOwn(TOOL_KINDS, type)) {
    const what = typeof type === "string" ? type.slice(0, 60) : "a tool without a type";
    throw refusal(
      place,
      `${place}: ${what} is run by OpenAI itself, and the provider of this model has no equivalent`,
    );
  }
  const environment = member(tool, "environment");
  if (isJsonObject(environment) && environment["type"] !== "local") {
    throw refusal(
      `${place}.environment`,
      `${place}.environment: containers are OpenAI's; only a local shell works with this model`,
    );
  }
  return type as ToolKind;
}

function describe(kind: ToolKind, tool: JsonObject, namespace: JsonObject | null): string {
  const own = tool["description"];
  const format = member(tool, "format");
  const grammar = isJsonObject(format) && format["type"] === "grammar"
    ? `The input must follow this ${String(format["syntax"])} grammar:\n${
      String(format["definition"])
    }`
    : "";
  const around = namespace?.["description"];
  return [
    typeof around === "string" ? around : "",
    typeof own === "string" && own !== "" ? own : TOOL_KINDS[kind].description,
    kind === "custom" ? grammar : "",
  ].filter((text) => text !== "").join("\n\n");
}

/** What the request says of calls, and the functions that may be called. */
export function decodeToolChoice(
  value: Json,
  { definitions, known }: DecodedTools,
): { toolChoice?: ToolChoice; definitions: FunctionDefinition[] } {
  if (value === null || value === "auto") return { definitions };
  if (value === "none" || value === "required") return { toolChoice: value, definitions };
  if (!isJsonObject(value)) throw unknownChoice();
  if (value["type"] === "allowed_tools") {
    const names = objectsOf(value["tools"], "tool_choice.tools").flatMap(chosen);
    const allowed = definitions.filter(({ name }) => names.includes(name));
    if (allowed.length === 0) throw unknownChoice();
    return value["mode"] === "required"
      ? { toolChoice: "required", definitions: allowed }
      : { definitions: allowed };
  }
  const [name] = chosen(value);
  if (name === undefined) throw unknownChoice();
  return { toolChoice: { name }, definitions };

  /** The wire name of a tool that a choice names; none when it is not among those that are offered. */
  function chosen(choice: JsonObject): string[] {
    const { type, name, namespace } = choice;
    for (const [wireName, tool] of known) {
      const isNamed = tool.name === (name ?? type) && (type === tool.kind || type === undefined);
      if (isNamed && (namespace === undefined || namespace === tool.namespace)) return [wireName];
    }
    return [];
  }
}

function unknownChoice() {
  return refusal(
    "tool_choice",
    "tool_choice must be auto, none, required or name tools that the model is offered here",
  );
}
