import { type Static, TransformKind, type TSchema } from "@sinclair/typebox";
import { HubError } from "../core/error.ts";
import { isJsonObject, type JsonSchema } from "../core/json.ts";
import type { ShownCall, ToolApproval, ToolContext, ToolEffect, ToolRisk } from "../core/tool.ts";
import { listOf } from "./coerce.ts";
import { JSON_TYPES } from "./schema_keywords.ts";
import { eachSubschema } from "./subschemas.ts";

export { Type } from "@sinclair/typebox";

/** What `run` gives back without an `output` schema: a text, content pieces in order, or any JSON value. */
export type FreeResult = string | number | boolean | null | object;

/** What `run` gives back: the output schema's type, else anything that is JSON. */
export type OperationResult<O extends TSchema | undefined> = O extends TSchema ? Static<O>
  : FreeResult;

/** What the author of an operation writes. */
export interface OperationSource<I extends TSchema, O extends TSchema | undefined> {
  /** Group of the operation: a letter, then letters, digits, `_` or `-`, at most 32 characters. */
  namespace: string;
  /** Name within the group, the same characters, at most 64. */
  name: string;
  /** For the model: what it does, when to use it, what comes back. 1 to 1024 characters. */
  description: string;
  /** TypeBox schema of the arguments, an object. */
  input: I;
  /** TypeBox schema of the result; a result that does not fit it fails the call. */
  output?: O;
  /** What running twice does. Default `effect`, the careful one. */
  effect?: ToolEffect;
  /** Whether a person is asked first. Default `never`: who offers an operation to an agent decided already. */
  approval?: ToolApproval;
  /** How much harm a wrong call does. Default `low` for pure operations, else `medium`. */
  risk?: ToolRisk;
  /** Deadline of one call, 1 ms to 1 h. Default: the setting `limits.toolTimeoutMs`, 60 s. */
  timeoutMs?: number;
  /** Never together with another call of its step. Default false. */
  sequential?: boolean;
  /** Repeating the same call is its purpose. Default false. */
  polling?: boolean;
  /**
   * For results that hold the words of others, such as pages, mail or files: `reads` them, or `sends` its arguments out
   * for them too. After a call of either, a run's calls with effects need a person. Default: neither.
   */
  outside?: "reads" | "sends";
  /** Means something inside of a run only, so that nobody can call it over MCP. Default false. */
  inRunsOnly?: boolean;
  /** Says what a call would do, for whoever is asked; see `Tool.preview`. */
  preview?(input: Static<I>, ctx: Pick<ToolContext, "signal">): Promise<ShownCall>;
  /** Does the work with validated arguments. Throws an error whose message the model may read. */
  run(
    input: Static<I>,
    ctx: ToolContext,
  ): OperationResult<O> | Promise<OperationResult<O>>;
}

/** A defined operation, defaults filled. Made by `defineOperation` only. */
export interface Operation<
  I extends TSchema = TSchema,
  O extends TSchema | undefined = TSchema | undefined,
> {
  readonly kind: "operation";
  /** `namespace.name`. */
  readonly fullName: string;
  readonly namespace: string;
  readonly name: string;
  readonly description: string;
  /** The input schema as plain JSON Schema. */
  readonly inputSchema: JsonSchema;
  readonly outputSchema: JsonSchema | null;
  readonly effect: ToolEffect;
  readonly approval: ToolApproval;
  readonly risk: ToolRisk;
  /** Null: the hub's setting. */
  readonly timeoutMs: number | null;
  readonly sequential: boolean;
  readonly polling: boolean;
  readonly outside: "reads" | "sends" | null;
  readonly inRunsOnly: boolean;
  preview?(input: Static<I>, ctx: Pick<ToolContext, "signal">): Promise<ShownCall>;
  run(
    input: Static<I>,
    ctx: ToolContext,
  ): OperationResult<O> | Promise<OperationResult<O>>;
}

/** Longest description model APIs take (OpenAI refuses the whole request beyond it). */
export const MAX_DESCRIPTION_CHARS = 1024;

const MAX_TIMEOUT_MS = 3_600_000;
const NAMESPACE = /^[a-zA-Z][a-zA-Z0-9_-]{0,31}$/;
const NAME = /^[a-zA-Z][a-zA-Z0-9_-]{0,63}$/;
const EFFECTS: readonly string[] = ["pure", "idempotent", "effect"];
const APPROVALS: readonly string[] = ["never", "ask", "session", "always"];
const OUTSIDE: readonly string[] = ["reads", "sends"];
const RISKS: readonly string[] = ["low", "medium", "high"];

/**
 * Defines an operation: checks the definition, fills the defaults, keeps the types of both schemas.
 * Throws `invalid_configuration` that lists everything that is wrong.
 */
export function defineOperation<I extends TSchema, O extends TSchema | undefined = undefined>(
  source: OperationSource<I, O>,
): Operation<I, O> {
  const fullName = `${source.namespace}.${source.name}`;
  const problems = [
    ...findWrongFields(source),
    ...findWrongSchema("input", source.input, true),
    ...source.output === undefined ? [] : findWrongSchema("output", source.output, false),
  ];
  if (problems.length > 0) {
    throw new HubError(
      "invalid_configuration",
      `Operation ${fullName} is not usable: ${problems.join("; ")}`,
      { details: { operation: fullName, problems } },
    );
  }
  const effect = source.effect ?? "effect";
  const { preview } = source;
  return Object.freeze({
    kind: "operation",
    fullName,
    namespace: source.namespace,
    name: source.name,
    description: source.description.trim(),
    inputSchema: toPlainSchema(source.input),
    outputSchema: source.output === undefined ? null : toPlainSchema(source.output),
    effect,
    approval: source.approval ?? "never",
    risk: source.risk ?? (effect === "pure" ? "low" : "medium"),
    timeoutMs: source.timeoutMs ?? null,
    sequential: source.sequential ?? false,
    polling: source.polling ?? false,
    outside: source.outside ?? null,
    inRunsOnly: source.inRunsOnly ?? false,
    ...(preview === undefined ? {} : { preview: preview.bind(source) }),
    run: (input: Static<I>, ctx: ToolContext) => source.run(input, ctx),
  });
}

/** True for what `defineOperation` made, also by another copy of this module. */
export function isOperation(value: unknown): value is Operation {
  return typeof value === "object" && value !== null && "kind" in value &&
    value.kind === "operation" && "run" in value && typeof value.run === "function";
}

function findWrongFields(source: OperationSource<TSchema, TSchema | undefined>): string[] {
  const problems: string[] = [];
  const wrong = (field: string, wanted: string, got: unknown) =>
    problems.push(`${field} is ${String(JSON.stringify(got)).slice(0, 80)}, wanted ${wanted}`);
  const { namespace, name, description, effect, approval, risk, timeoutMs } = source;
  if (!NAMESPACE.test(namespace)) {
    wrong("namespace", "a letter, then up to 31 letters, digits, _ or -", namespace);
  }
  if (!NAME.test(name)) wrong("name", "a letter, then up to 63 letters, digits, _ or -", name);
  const length = typeof description === "string" ? description.trim().length : 0;
  if (length === 0) wrong("description", "a text that tells a model what it does", description);
  if (length > MAX_DESCRIPTION_CHARS) {
    wrong("description", `at most ${MAX_DESCRIPTION_CHARS} characters`, `${length} characters`);
  }
  if (effect !== undefined && !EFFECTS.includes(effect)) {
    wrong("effect", EFFECTS.join(" or "), effect);
  }
  if (approval !== undefined && !APPROVALS.includes(approval)) {
    wrong("approval", APPROVALS.join(" or "), approval);
  }
  if (risk !== undefined && !RISKS.includes(risk)) wrong("risk", RISKS.join(" or "), risk);
  const { outside } = source;
  if (outside !== undefined && !OUTSIDE.includes(outside)) {
    wrong("outside", OUTSIDE.join(" or "), outside);
  }
  const isTime = timeoutMs === undefined ||
    Number.isInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS;
  if (!isTime) wrong("timeoutMs", `whole milliseconds from 1 to ${MAX_TIMEOUT_MS}`, timeoutMs);
  if (typeof source.run !== "function") wrong("run", "a function", source.run);
  return problems;
}

/** Arguments and results travel as JSON, so types that JSON does not have cannot be promised. */
function findWrongSchema(field: string, schema: TSchema, root: boolean): string[] {
  if (!isJsonObject(schema)) return [`${field} is no schema, wanted one made with Type`];
  const problems: string[] = [];
  if (root && schema.type !== "object" && schema.$ref === undefined && schema.allOf === undefined) {
    problems.push(`${field} is ${JSON.stringify(schema.type ?? "untyped")}, wanted Type.Object`);
  }
  eachSubschema(schema, (part, pointer) => {
    const place = `${field}${pointer}`;
    if (TransformKind in part) problems.push(`${place} is a transform, which JSON cannot carry`);
    for (const type of listOf(part.type)) {
      if (!JSON_TYPES.includes(type)) problems.push(`${place} has type ${type}, which is not JSON`);
    }
  });
  return problems;
}

function toPlainSchema(schema: TSchema): JsonSchema {
  return JSON.parse(JSON.stringify(schema));
}
