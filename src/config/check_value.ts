import { FormatRegistry, type TSchema } from "@sinclair/typebox";
import { TypeCompiler, type ValueError } from "@sinclair/typebox/compiler";
import { Value } from "@sinclair/typebox/value";
import { isDateTime } from "../core/date_time.ts";
import { HubError } from "../core/error.ts";
import type { Json } from "../core/json.ts";
import { describeGot } from "./describe_got.ts";

// TypeBox keeps formats for the whole process, and refuses every value of one that it does not know.
FormatRegistry.Set("date-time", isDateTime);

/** Checks a value against a schema and gives it back with defaults filled in; throws `invalid_request` otherwise. */
export type CheckValue = (value: unknown) => unknown;

/** Where a value came from, for messages; `given` for a service, which is called by several doors. */
export type ValueSource = "body" | "query" | "path" | "given";

/** Makes the check of one part of a request, or of what a service is given. The schema is compiled once. */
export function createCheck(schema: TSchema, source: ValueSource): CheckValue {
  const compiled = TypeCompiler.Compile(schema);
  const hasDefaults = JSON.stringify(schema).includes('"default":');
  return (given) => {
    const value = hasDefaults ? Value.Default(schema, given) : given;
    if (compiled.Check(value)) return value;
    const error = deepest(compiled.Errors(value).First());
    throw refuse(source, error);
  };
}

/** Of a union's mistakes the one that lies deepest, in a variant that could be meant, tells most about what was meant. */
function deepest(error: ValueError | undefined): ValueError | undefined {
  let best = error;
  const variants = (error?.errors ?? []).map(firstOf);
  const meant = variants.filter((errors) => !errors.some(isOfAnother));
  for (const [first] of meant.length > 0 ? meant : variants) {
    const inner = deepest(first);
    if (inner !== undefined && depth(inner) > depth(best)) best = inner;
  }
  return best;
}

/** The first errors of a variant; it can be asked for them once. */
function firstOf(variant: Iterable<ValueError>): ValueError[] {
  const errors: ValueError[] = [];
  for (const error of variant) {
    if (errors.push(error) === MAX_LOOKED_AT) break;
  }
  return errors;
}

/** Whether the member that tells variants apart says another one. */
function isOfAnother({ schema, path }: ValueError): boolean {
  return schema.const !== undefined && path.endsWith("/type");
}

const MAX_LOOKED_AT = 20;

function depth(error: ValueError | undefined): number {
  return error?.path.split("/").length ?? 0;
}

function refuse(source: ValueSource, error: ValueError | undefined): HubError {
  const param = error === undefined ? "" : toParam(error.path);
  const place = source === "given"
    ? param
    : param === ""
    ? `The ${source}`
    : `${param} (in the ${source})`;
  const got = error?.value === undefined
    ? "nothing"
    : describeGot(error.value as Json, { secret: false, raw: null });
  return new HubError("invalid_request", `${place}: got ${got}, wanted ${wantedOf(error)}`, {
    ...(param === "" ? {} : { param }),
  });
}

/** A JSON pointer as OpenAI writes places: `messages[0].role`. */
function toParam(pointer: string): string {
  let param = "";
  for (const step of pointer.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (/^\d+$/.test(name)) param += `[${name}]`;
    else param += param === "" ? name : `.${name}`;
  }
  return param;
}

function wantedOf(error: ValueError | undefined): string {
  if (error === undefined) return "a value of the documented form";
  if (error.message === "Unexpected property") return "no property of this name";
  const variants = error.schema.anyOf as TSchema[] | undefined;
  if (variants !== undefined) return variants.map(describeSchema).join(" or ");
  return describeSchema(error.schema);
}

function describeSchema(schema: TSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  const type = typeof schema.type === "string" ? schema.type : "value of the documented form";
  const bounds = BOUNDS.flatMap(([keyword, words]) =>
    schema[keyword] === undefined ? [] : [`${words} ${schema[keyword]}`]
  );
  const article = /^[aeiou]/.test(type) ? "an" : "a";
  return `${article} ${type}${bounds.length === 0 ? "" : ` (${bounds.join(", ")})`}`;
}

const BOUNDS: readonly (readonly [keyof TSchema & string, string])[] = [
  ["minimum", "at least"],
  ["maximum", "at most"],
  ["minLength", "length at least"],
  ["maxLength", "length at most"],
  ["minItems", "items at least"],
  ["maxItems", "items at most"],
  ["pattern", "matching"],
  ["format", "format"],
];
