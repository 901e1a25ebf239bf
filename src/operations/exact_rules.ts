import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { listOf } from "./coerce.ts";
import { hasFormat } from "./formats.ts";

/** What a rule asks of the check that it stands in. */
export interface RuleCheck {
  /** Whether a value fits a schema; says nothing of what is wrong. */
  fits(schema: Json, value: Json): boolean;
  /** Holds a value to a schema. */
  hold(schema: Json, value: Json): void;
  /** Says that the value is wrong. */
  fail(wanted: string): void;
}

/** The rules of one schema that only an exact check knows: conditions, formats, `contains` and what a property brings with it. */
export function checkExactRules(schema: JsonObject, value: Json, check: RuleCheck): void {
  const { format } = schema;
  if (typeof format === "string" && !hasFormat(value, format)) check.fail(`the format ${format}`);
  if (schema.if !== undefined) {
    const then = check.fits(schema.if, value) ? schema.then : schema.else;
    if (then !== undefined) check.hold(then, value);
  }
  if (Array.isArray(value)) checkContains(schema, value, check);
  else if (isJsonObject(value)) checkDependents(schema, value, check);
}

function checkContains(schema: JsonObject, value: Json[], check: RuleCheck): void {
  const { contains, minContains = 1, maxContains } = schema;
  if (contains === undefined) return;
  const count = value.filter((item) => check.fits(contains, item)).length;
  if (count < Number(minContains)) {
    check.fail(`at least ${minContains} items that fit \`contains\``);
  }
  if (typeof maxContains === "number" && count > maxContains) {
    check.fail(`at most ${maxContains} items that fit \`contains\``);
  }
}

/** Draft 7 has both kinds of `dependencies` in one. */
function checkDependents(schema: JsonObject, value: JsonObject, check: RuleCheck): void {
  const rules = [schema.dependentRequired, schema.dependentSchemas, schema.dependencies]
    .flatMap((rules) => isJsonObject(rules) ? Object.entries(rules) : []);
  for (const [name, rule] of rules) {
    if (!Object.hasOwn(value, name)) continue;
    if (!Array.isArray(rule)) check.hold(rule, value);
    for (const other of Array.isArray(rule) ? listOf(rule) : []) {
      if (!Object.hasOwn(value, other)) check.fail(`${other} beside ${name}`);
    }
  }
}
