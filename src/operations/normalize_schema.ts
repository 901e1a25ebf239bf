import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../core/json.ts";
import { listOf } from "./coerce.ts";
import { FORBIDDEN_KEYS } from "./hostile_json.ts";
import { typesOfLiterals } from "./literal_types.ts";
import { toRootObject } from "./root_object.ts";
import {
  copyKeyword,
  copyTypes,
  isPortablePattern,
  liftExclusiveBounds,
} from "./schema_keywords.ts";
import { createRefResolver, type ResolveRef } from "./schema_ref.ts";

/** A schema that every model API takes without strict mode, and what it cost to get there. */
export interface NormalizedSchema {
  schema: JsonSchema;
  /** True when the schema still says exactly what the source said; only such a schema may become strict. */
  exact: boolean;
  /** What was left out or repaired, one sentence each. */
  notes: string[];
}

interface Work {
  resolve: ResolveRef;
  /** Names given to referenced schemas, by the pointer of the source. */
  names: Map<string, string>;
  /** Those names, and how often each was wanted. */
  taken: Map<string, number>;
  /** Referenced schemas that still need their place under `$defs`. */
  waiting: { name: string; schema: JsonObject | boolean }[];
  nodes: number;
  exact: boolean;
  notes: string[];
}

const MAX_DEPTH = 32;
const MAX_NODES = 4000;
const MAX_NOTES = 50;

/**
 * Copies a schema into the form that model APIs accept: an object at the root, `items` and `properties` everywhere
 * they belong, references only to `#/$defs/name` (reachable ones, recursion kept), no boolean schemas but
 * `additionalProperties`, no unknown keywords or formats, bounded depth and size. Nothing is ever fetched: a remote or
 * dangling reference becomes `{}`. Never throws, whatever the source is.
 */
export function normalizeSchema(source: unknown): NormalizedSchema {
  const document = isJsonObject(source) ? source : {};
  const resolve = createRefResolver(document);
  const root = toRootObject(source, resolve);
  const work: Work = {
    resolve,
    names: new Map(),
    taken: new Map(),
    waiting: [],
    nodes: 0,
    exact: root.exact,
    notes: root.notes,
  };
  const schema = copySchema(work, root.schema, 0);
  if (schema.properties === undefined) schema.properties = {};
  const definitions: [string, Json][] = [];
  for (let next = work.waiting.shift(); next !== undefined; next = work.waiting.shift()) {
    definitions.push([next.name, copySchema(work, next.schema, 1)]);
  }
  if (definitions.length > 0) schema.$defs = Object.fromEntries(definitions);
  return { schema, exact: work.exact, notes: work.notes.slice(0, MAX_NOTES) };
}

/** Notes a change that leaves the meaning alone. */
function note(work: Work, sentence: string): void {
  if (work.notes.length < MAX_NOTES) work.notes.push(sentence);
}

/** Notes a change after which the schema no longer says the same. */
function loosen(work: Work, sentence: string): void {
  work.exact = false;
  note(work, sentence);
}

function copySchema(work: Work, source: Json | undefined, depth: number): JsonObject {
  if (source === true) return {};
  if (!isJsonObject(source)) {
    loosen(work, source === false ? "A schema allows nothing" : "A schema is no object");
    return {};
  }
  if (depth > MAX_DEPTH || ++work.nodes > MAX_NODES) {
    loosen(work, `The schema is deeper than ${MAX_DEPTH} or larger than ${MAX_NODES} parts`);
    return {};
  }
  const schema = liftExclusiveBounds(source);
  const copy: JsonObject = {};
  const type = copyTypes(schema);
  if (type !== undefined) copy.type = type;
  else if (schema.type !== undefined) {
    loosen(work, `Type ${JSON.stringify(schema.type)} is unknown`);
  }
  for (const [keyword, value] of Object.entries(schema)) {
    const child = copyMember(work, { keyword, value, schema, depth: depth + 1 });
    if (child !== undefined) copy[keyword] = child;
  }
  const [literalType, ...others] = typesOfLiterals(copy);
  if (copy.type === undefined && literalType !== undefined && others.length === 0) {
    copy.type = literalType;
  }
  copyArrayForm(work, { schema, copy, depth: depth + 1 });
  copyObjectForm(work, { schema, copy, root: depth === 0 });
  return copy;
}

interface Member {
  keyword: string;
  value: Json;
  schema: JsonObject;
  depth: number;
}

function copyMember(work: Work, { keyword, value, depth }: Member): Json | undefined {
  switch (keyword) {
    case "$ref":
      return copyRef(work, value);
    case "properties":
      return copyProperties(work, value, depth);
    case "patternProperties":
      return copyPatternProperties(work, value, depth);
    case "additionalProperties":
      if (typeof value === "boolean") return value;
      return isJsonObject(value) ? copySchema(work, value, depth) : undefined;
    case "anyOf":
    case "oneOf":
    case "allOf":
      if (!Array.isArray(value) || value.length === 0) return undefined;
      return value.map((branch) => copySchema(work, branch, depth));
    case "not":
    case "propertyNames":
    case "contains":
      return isJsonObject(value) ? copySchema(work, value, depth) : undefined;
    case "if":
    case "then":
    case "else":
    case "dependencies":
    case "dependentRequired":
    case "dependentSchemas":
    case "unevaluatedItems":
    case "unevaluatedProperties":
      loosen(work, `\`${keyword}\` is left out`);
      return undefined;
    case "format":
    case "pattern": {
      const kept = copyKeyword(keyword, value);
      if (kept === undefined) note(work, `The ${keyword} ${JSON.stringify(value)} is left out`);
      return kept;
    }
    default:
      return copyKeyword(keyword, value);
  }
}

/** Gives the referenced schema a name under `$defs`; `#` stays, since the root stays the root. */
function copyRef(work: Work, value: Json): Json | undefined {
  const target = typeof value === "string" ? work.resolve(value) : null;
  if (target === null) {
    loosen(
      work,
      `The reference ${JSON.stringify(value).slice(0, 100)} leads nowhere in the schema`,
    );
    return undefined;
  }
  if (target.pointer === "") return "#";
  let name = work.names.get(target.pointer);
  if (name === undefined) {
    name = freeName(work, target.pointer);
    work.names.set(target.pointer, name);
    work.waiting.push({ name, schema: target.schema });
  }
  return `#/$defs/${name}`;
}

function freeName(work: Work, pointer: string): string {
  const last = pointer.slice(pointer.lastIndexOf("/") + 1);
  const base = last.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 48) || "schema";
  const { taken } = work;
  for (let count = (taken.get(base) ?? 0) + 1;; count++) {
    const name = count === 1 ? base : `${base}_${count}`;
    if (taken.has(name) || FORBIDDEN_KEYS.has(name)) continue;
    taken.set(name, 1);
    taken.set(base, count);
    return name;
  }
}

function copyProperties(work: Work, value: Json, depth: number): Json | undefined {
  if (!isJsonObject(value)) return undefined;
  const properties: [string, Json][] = [];
  for (const [name, child] of Object.entries(value)) {
    if (name === "__proto__") {
      loosen(work, "A property named __proto__ is left out");
    } else if (name === "required" && Array.isArray(child)) {
      loosen(work, "`required` stood among the properties");
    } else {
      properties.push([name, copySchema(work, child, depth)]);
    }
  }
  return Object.fromEntries(properties);
}

function copyPatternProperties(work: Work, value: Json, depth: number): Json | undefined {
  if (!isJsonObject(value)) return undefined;
  const patterns: [string, Json][] = [];
  for (const [pattern, child] of Object.entries(value)) {
    if (isPortablePattern(pattern)) patterns.push([pattern, copySchema(work, child, depth)]);
    else loosen(work, `The property pattern ${JSON.stringify(pattern)} is left out`);
  }
  return patterns.length === 0 ? undefined : Object.fromEntries(patterns);
}

interface Form {
  schema: JsonObject;
  copy: JsonObject;
}

/** Every array gets `items`; a tuple becomes a list of any of its members, as model APIs know no tuples. */
function copyArrayForm(work: Work, { schema, copy, depth }: Form & { depth: number }): void {
  const tuple = Array.isArray(schema.prefixItems)
    ? schema.prefixItems
    : Array.isArray(schema.items)
    ? schema.items
    : null;
  if (tuple !== null) {
    loosen(work, "A tuple is shown as a list");
    const members = tuple.map((member) => copySchema(work, member, depth));
    copy.items = members.length === 0 ? {} : { anyOf: members };
  } else if (schema.items !== undefined) {
    copy.items = copySchema(work, schema.items, depth);
  } else if (listOf(copy.type).includes("array")) {
    copy.items = {};
    work.exact = false;
  }
  if (copy.items !== undefined && !declaresForm(copy)) copy.type = "array";
}

/** Every object gets `properties`, and `required` names only what is declared there. */
function copyObjectForm(work: Work, { schema, copy, root }: Form & { root: boolean }): void {
  if (copy.properties !== undefined && !declaresForm(copy)) copy.type = "object";
  if (listOf(copy.type).includes("object") && copy.properties === undefined) {
    copy.properties = {};
    if (!root && copy.additionalProperties !== false) work.exact = false;
  }
  if (copy.additionalProperties === false && dropsPatterns(schema, copy)) {
    delete copy.additionalProperties;
  }
  const lifted = isJsonObject(schema.properties) && Array.isArray(schema.properties.required)
    ? listOf(schema.properties.required)
    : [];
  const required = [...new Set([...listOf(schema.required), ...lifted])];
  if (schema.required !== undefined && !Array.isArray(schema.required)) {
    note(work, "`required` is no list");
  }
  if (required.length === 0 || !Array.isArray(schema.required) && lifted.length === 0) return;
  if (isJsonObject(copy.properties)) {
    for (const name of required) {
      if (Object.hasOwn(copy.properties, name) || name === "__proto__") continue;
      copy.properties[name] = {};
      loosen(work, `The required property ${JSON.stringify(name)} is not declared`);
    }
  }
  copy.required = required.filter((name) => name !== "__proto__");
}

/** True when the schema already says what kind of value it wants. */
function declaresForm(copy: JsonObject): boolean {
  return ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"].some((keyword) =>
    copy[keyword] !== undefined
  );
}

/** True when names that a pattern allowed would now be refused. */
function dropsPatterns(schema: JsonObject, copy: JsonObject): boolean {
  const before = isJsonObject(schema.patternProperties) ? schema.patternProperties : {};
  const after = isJsonObject(copy.patternProperties) ? copy.patternProperties : {};
  return Object.keys(after).length < Object.keys(before).length;
}
