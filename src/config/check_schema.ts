import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { type ConfigPath, formatPath } from "./config_path.ts";
import { describeGot } from "./describe_got.ts";
import type { Reference } from "./expand.ts";
import { didYouMean } from "./nearest_name.ts";
import type { ProblemList } from "./problem.ts";
import { describeWanted, namedMembers, recordOf, type SchemaNode } from "./schema_node.ts";

/** What the checker knows besides schema and value. */
export interface SchemaCheck {
  problems: ProblemList;
  references: ReadonlyMap<string, Reference>;
}

interface Place {
  path: ConfigPath;
  /** True at and below a setting that holds keys. */
  secret: boolean;
}

/**
 * Checks a value against the configuration's schema, fills in defaults, and reports every mistake at once, which
 * TypeBox's own `Value.Errors` does not (it stops at the first wrong name of a record and looks into no union).
 * Gives the value without its wrong parts, so that the meaning of the rest can be checked too. A text that is wholly
 * one `${VAR}` may stand for a number or a boolean.
 */
export function checkSchema(
  node: SchemaNode,
  value: Json,
  { problems, references }: SchemaCheck,
): Json | undefined {
  const visit = (node: SchemaNode, given: Json | undefined, above: Place): Json | undefined => {
    const place = { path: above.path, secret: above.secret || node.secret === true };
    if (given === undefined) {
      const filled = structuredClone(node.default) as Json | undefined;
      return isJsonObject(filled) ? visitObject(node, filled, place) : filled;
    }
    if (isOpen(node)) return given;
    const value = convert(node, given, place);
    if (node.anyOf !== undefined) {
      const variant = node.anyOf.find((candidate) => hasShape(candidate, value));
      return variant === undefined ? refuse(node, value, place) : visit(variant, value, place);
    }
    if (!hasShape(node, value)) return refuse(node, value, place);
    if (isJsonObject(value)) return visitObject(node, value, place);
    if (Array.isArray(value)) return visitList(node, value, place);
    return fits(node, value) ? value : refuse(node, value, place);
  };

  const visitObject = (node: SchemaNode, value: JsonObject, place: Place): Json | undefined => {
    const members = namedMembers(node);
    const record = recordOf(node);
    const out: [string, Json][] = [];
    let whole = true;
    for (const [name, member] of members) {
      const given = Object.hasOwn(value, name) ? value[name] : undefined;
      const inner = { ...place, path: [...place.path, name] };
      const checked = visit(member, given, inner) ?? visit(member, undefined, inner);
      if (checked !== undefined) {
        out.push([name, checked]);
        continue;
      }
      if (node.required?.includes(name) !== true) continue;
      whole = false;
      if (given === undefined) {
        problems.add(inner.path, { got: "nothing", wanted: describeWanted(member) });
      }
    }
    for (const [name, given] of Object.entries(value)) {
      if (members.some(([known]) => known === name)) continue;
      const inner = { ...place, path: [...place.path, name] };
      if (record?.pattern.test(name) !== true) {
        problems.add(inner.path, describeWrongName(node, name));
        continue;
      }
      const checked = visit(record.value, given, inner) ?? visit(record.value, undefined, inner);
      if (checked !== undefined) out.push([name, checked]);
    }
    return whole ? Object.fromEntries(out) : undefined;
  };

  const visitList = (node: SchemaNode, value: Json[], place: Place): Json | undefined => {
    if (value.length < (node.minItems ?? 0)) return refuse(node, value, place);
    const out: Json[] = [];
    for (const [index, item] of value.entries()) {
      const inner = { ...place, path: [...place.path, index] };
      const checked = visit(node.items ?? {}, item, inner);
      if (checked === undefined) continue;
      if (node.uniqueItems === true && out.includes(checked)) {
        const got = `${describe(checked, inner)} a second time`;
        problems.add(inner.path, { got, wanted: "each entry once" });
        continue;
      }
      out.push(checked);
    }
    return out;
  };

  const refuse = (node: SchemaNode, value: Json, place: Place): undefined => {
    const hint = typeof value === "string" && !place.secret
      ? didYouMean(value, (node.anyOf ?? []).flatMap(constantText))
      : "";
    problems.add(place.path, { got: describe(value, place), wanted: describeWanted(node) + hint });
    return undefined;
  };

  const convert = (node: SchemaNode, value: Json, { path }: Place): Json => {
    const reference = references.get(formatPath(path));
    if (typeof value !== "string" || reference?.whole !== true) return value;
    if (node.type === "boolean" && /^(true|false)$/.test(value)) return value === "true";
    if (node.type !== "integer" && node.type !== "number") return value;
    return /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  };

  const describe = (value: Json, { path, secret }: Place): string =>
    describeGot(value, { secret, raw: references.get(formatPath(path))?.raw ?? null });

  return visit(node, value, { path: [], secret: false });
}

/** True for a schema that says nothing of its value: any JSON fits, and nothing inside of it is looked at. */
function isOpen(node: SchemaNode): boolean {
  return node.type === undefined && node.anyOf === undefined && !("const" in node) &&
    node.properties === undefined && node.patternProperties === undefined;
}

function describeWrongName(node: SchemaNode, name: string): { got: string; wanted: string } {
  if (node.patternProperties !== undefined) {
    return { got: "a name that cannot be used", wanted: node.wanted ?? "another name" };
  }
  const known = namedMembers(node).map(([candidate]) => candidate);
  return {
    got: "an unknown setting",
    wanted: `one of ${known.join(", ")}${didYouMean(name, known)}`,
  };
}

function constantText(node: SchemaNode): string[] {
  return typeof node.const === "string" ? [node.const] : [];
}

/** True when the value is of the schema's JSON type; its range and members are not looked at. */
function hasShape(node: SchemaNode, value: Json): boolean {
  if (node.const !== undefined) return node.const === value;
  if (node.anyOf !== undefined) return node.anyOf.some((variant) => hasShape(variant, value));
  switch (node.type) {
    case "object":
      return isJsonObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isSafeInteger(value);
    case "number":
      return typeof value === "number";
    case "string":
      return typeof value === "string";
    case "boolean":
      return typeof value === "boolean";
    default:
      return true;
  }
}

function fits(node: SchemaNode, value: Json): boolean {
  if (typeof value === "string") {
    return value.length >= (node.minLength ?? 0) && value.length <= (node.maxLength ?? Infinity);
  }
  if (typeof value !== "number") return true;
  return value >= (node.minimum ?? -Infinity) && value <= (node.maximum ?? Infinity) &&
    value > (node.exclusiveMinimum ?? -Infinity);
}
