import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { listOf } from "./coerce.ts";
import { describeNames, describeWanted } from "./describe_value.ts";
import { escapeToken } from "./json_pointer.ts";
import { attempt, fail, failBounded, spend, type Work } from "./validation_work.ts";

/** Holds an object to what its schema says of properties. Gives those that are kept. */
export function checkProperties(
  work: Work,
  schema: JsonObject,
  target: { value: JsonObject; path: string },
): JsonObject {
  const { value, path } = target;
  if (!spend(work, { things: Object.keys(value).length * (1 + patternsOf(schema)) })) {
    failBounded(work, { schema, ...target });
    return value;
  }
  const known = isJsonObject(schema.properties) ? schema.properties : {};
  const required = listOf(schema.required);
  const kept: JsonObject = {};
  for (const [key, child] of Object.entries(value)) {
    const place = `${path}/${escapeToken(key)}`;
    if (schema.propertyNames !== undefined) {
      const name = { schema: schema.propertyNames, value: key, path: place };
      for (const { wanted } of attempt(work, name, false).problems) {
        work.problems.push({ path: place, wanted: `${wanted} as its name`, got: "another name" });
      }
    }
    if (Object.hasOwn(known, key)) {
      if (child === null && work.dropNulls && !required.includes(key)) {
        const tried = attempt(work, { schema: known[key], value: null, path: place }, false);
        if (tried.problems.length > 0) continue;
      }
      const value = work.check(work, { schema: known[key], value: child, path: place });
      kept[key] = checkPatterns(work, schema, { key, value, path: place }).value;
    } else {
      kept[key] = checkExtra(work, schema, { key, value: child, path: place });
    }
  }
  for (const key of required) {
    if (Object.hasOwn(kept, key)) continue;
    const wanted = Object.hasOwn(known, key) ? describeWanted(known[key]) : "a value";
    work.problems.push({ path: `${path}/${escapeToken(key)}`, wanted, got: "nothing" });
  }
  const count = Object.keys(kept).length;
  if (typeof schema.minProperties === "number" && count < schema.minProperties) {
    fail(work, { schema, value, path }, `at least ${schema.minProperties} properties`);
  }
  if (typeof schema.maxProperties === "number" && count > schema.maxProperties) {
    fail(work, { schema, value, path }, `at most ${schema.maxProperties} properties`);
  }
  return kept;
}

/** The schemas of `patternProperties` that a name leads to. `isMatched` also when that cannot be told. */
function checkPatterns(work: Work, { patternProperties }: JsonObject, property: Property) {
  let { value } = property;
  let isMatched = false;
  if (!isJsonObject(patternProperties)) return { value, isMatched };
  for (const [pattern, schema] of Object.entries(patternProperties)) {
    const verdict = work.isFound(pattern, property.key);
    if (verdict === true) value = work.check(work, { schema, value, path: property.path });
    isMatched ||= verdict !== false;
  }
  return { value, isMatched };
}

function patternsOf({ patternProperties }: JsonObject): number {
  return isJsonObject(patternProperties) ? Object.keys(patternProperties).length : 0;
}

interface Property {
  key: string;
  value: Json;
  path: string;
}

/** A property that `properties` does not list. */
function checkExtra(work: Work, schema: JsonObject, extra: Property): Json {
  const { value, isMatched } = checkPatterns(work, schema, extra);
  if (isMatched) return value;
  if (schema.additionalProperties === false) {
    const wanted = describeNames(isJsonObject(schema.properties) ? schema.properties : {});
    work.problems.push({ path: extra.path, wanted, got: "a property the schema does not know" });
    return value;
  }
  return work.check(work, { schema: schema.additionalProperties, value, path: extra.path });
}
