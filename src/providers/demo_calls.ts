import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { jsonIn, sampleInput } from "./demo_input.ts";

/** A call that the demo makes. */
export interface DemoCall {
  name: string;
  input: JsonObject;
}

/** How `hub.propose_plan` is called: a demo that has it proposes its calls first. */
const PLAN = "hub_propose_plan";
/** What a plan has for a prompt that names no tool, where it is offered. */
const EXAMPLE = "hub_current_time";

/** Which tools the demo calls for a prompt: those that it names, or the one that the request forces. */
export function chooseCalls(
  body: JsonObject,
  { prompt, planned }: {
    prompt: string;
    /** The tools of a plan that was agreed on; null for none. */
    planned: readonly string[] | null;
  },
): DemoCall[] {
  const offered = offeredTools(body);
  const call = (tool: JsonObject, at: number) => {
    const schema = isJsonObject(tool["parameters"]) ? tool["parameters"] : {};
    return { name: String(tool["name"]), input: sampleInput(schema, prompt.slice(at)) };
  };
  const named = offered.flatMap((tool) => {
    const at = placeOf(String(tool["name"]), prompt);
    return at === null ? [] : [call(tool, at)];
  });
  const others = offered.filter(({ name }) => name !== PLAN);
  if (planned !== null) {
    if (named.length > 0) return named;
    return others.filter(({ name }) => planned.includes(String(name))).map((tool) => call(tool, 0));
  }
  const forced = forcedName(body);
  const only = others.find(({ name }) => name === forced);
  if (only !== undefined) return [call(only, 0)];
  const example = others.find(({ name }) => name === EXAMPLE) ?? others[0];
  if (offered.length > others.length && (named.length > 0 || forced === PLAN)) {
    const tools = named.length === 0 && example !== undefined ? [call(example, 0)] : named;
    const purpose = named.length === 0 ? "The prompt names no tool" : "The prompt names it";
    const steps = tools.map(({ name: tool }) => ({ tool, purpose }));
    return steps.length === 0 ? [] : [{ name: PLAN, input: { steps } }];
  }
  const mustCall = named.length === 0 && body["tool_choice"] === "required";
  return mustCall && example !== undefined ? [call(example, 0)] : named;
}

/** The tools of a request that may be called. */
export function offeredTools(body: JsonObject): JsonObject[] {
  if (body["tool_choice"] === "none") return [];
  return listOf(body["tools"]).map(functionOf);
}

/** The tools of the plan that a message proposes; null for a message that proposes none. */
export function plannedTools(message: JsonObject | undefined): string[] | null {
  const plan = listOf(message?.["tool_calls"]).map(functionOf).find(({ name }) => name === PLAN);
  if (plan === undefined) return null;
  return listOf(jsonIn(String(plan["arguments"]))?.["steps"]).map(({ tool }) => String(tool));
}

/** The objects of a list; none for what is no list. */
export function listOf(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function functionOf({ function: called }: JsonObject): JsonObject {
  return isJsonObject(called) ? called : {};
}

function forcedName({ tool_choice: choice }: JsonObject): string | null {
  return isJsonObject(choice) ? String(functionOf(choice)["name"]) : null;
}

/** Where the prompt names the tool (by its wire name, with a dot, or by its last part): behind the name; else null. */
function placeOf(name: string, prompt: string): number | null {
  const text = prompt.toLowerCase();
  const last = name.replace(/^.*?(__|[._-])/, "");
  for (const form of [name, name.replace(/__|_/, "."), last, last.replaceAll("_", " ")]) {
    const at = text.indexOf(form.toLowerCase());
    if (form.length > 2 && at >= 0) return at + form.length;
  }
  return null;
}
