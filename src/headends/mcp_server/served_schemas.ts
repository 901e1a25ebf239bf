import { isJsonObject, type JsonSchema } from "../../core/json.ts";
import type { Log } from "../../core/log.ts";
import type { Tool } from "../../core/tool.ts";
import { servedInputSchema, servedOutputSchema } from "../../operations/served_schema.ts";
import type { ServedTool } from "./served_tool.ts";

/** Longest definition of a tool, in characters of JSON. */
const MAX_DEFINITION_CHARS = 512 * 1024;

type Schemas = Pick<ServedTool, "inputSchema" | "outputSchema">;

/** The schemas of tools as MCP clients take them, each looked through once. */
export class ServedSchemas {
  readonly #log: Log;
  readonly #known = new WeakMap<Tool, { schemas: Schemas | null }>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Null for a tool that cannot be listed: the log says why, once. */
  of(tool: Tool): Schemas | null {
    const known = this.#known.get(tool);
    if (known !== undefined) return known.schemas;
    const schemas = this.#make(tool);
    this.#known.set(tool, { schemas });
    return schemas;
  }

  #make(tool: Tool): Schemas | null {
    let reason = "its definition cannot be written as JSON";
    try {
      const schemas = toSchemas(tool);
      const { length } = JSON.stringify([tool.title, tool.description, schemas]);
      if (length <= MAX_DEFINITION_CHARS) return schemas;
      reason =
        `its definition has ${length} characters, and at most ${MAX_DEFINITION_CHARS} are sent`;
    } catch {
      // The reason stands.
    }
    this.#log.warn("A tool is not served over MCP, since clients would refuse the whole list", {
      tool: tool.name,
      reason,
    });
    return null;
  }
}

function toSchemas({ inputSchema, outputSchema, parameters }: Tool): Schemas {
  const output = isObjectSchema(outputSchema) ? servedOutputSchema(outputSchema) : null;
  return {
    inputSchema: servedInputSchema(isObjectSchema(inputSchema) ? inputSchema : parameters),
    ...(output === null ? {} : { outputSchema: output }),
  };
}

function isObjectSchema(schema: JsonSchema | null | undefined): schema is JsonSchema {
  return isJsonObject(schema) && schema["type"] === "object";
}
