import type { TObject, TSchema } from "@sinclair/typebox";
import { HubError } from "../core/error.ts";

/**
 * A query string as an object that a schema can check: a text becomes a number or a boolean where the schema wants
 * one, and a repeated name a list where it wants one. Throws `invalid_request` for a name that is repeated elsewhere,
 * and for NUL.
 */
export function parseQuery(search: string, schema: TObject): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null);
  if (search === "") return query;
  for (const [name, text] of new URLSearchParams(search)) {
    if (text.includes("\0")) {
      throw new HubError("invalid_request", `${name} (in the query): got a NUL character`, {
        param: name,
      });
    }
    const wanted = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
    if (wanted?.type === "array") {
      const list = query[name] as unknown[] | undefined;
      const value = convert(text, wanted.items as TSchema);
      if (list === undefined) query[name] = [value];
      else list.push(value);
    } else if (name in query) {
      throw new HubError(
        "invalid_request",
        `${name} (in the query): got it twice, wanted it once`,
        {
          param: name,
        },
      );
    } else query[name] = convert(text, wanted);
  }
  return query;
}

function convert(text: string, schema: TSchema | undefined): unknown {
  switch (schema?.type) {
    case "integer":
    case "number":
      return /^-?\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : text;
    case "boolean":
      return text === "true" ? true : text === "false" ? false : text;
    default:
      return text;
  }
}
