import { isJsonObject, type Json, type JsonObject } from "../../src/core/json.ts";

/** One tool of a real server, or one odd shape (`id`) made after a reported defect. */
export interface CorpusTool {
  server: string;
  id?: string;
  name: string;
  description: string;
  inputSchema: Json | undefined;
}

/** Every tool of `tests/fixtures/mcp-tools/`: lists of real MCP servers as they were dumped, a file each, one tool a line. */
export function readToolCorpus(): CorpusTool[] {
  const folder = new URL("../fixtures/mcp-tools/", import.meta.url);
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  return files.flatMap((file) =>
    Deno.readTextFileSync(new URL(file, folder)).trimEnd().split("\n").map((line) => {
      const tool: JsonObject = JSON.parse(line);
      return {
        server: file.replace(".jsonl", ""),
        ...typeof tool.id === "string" ? { id: tool.id } : {},
        name: String(tool.name),
        description: String(tool.description ?? ""),
        inputSchema: tool.inputSchema,
      };
    })
  );
}

/** The input schema of one odd shape. */
export function oddShape(id: string): Json | undefined {
  const found = readToolCorpus().find((tool) => tool.id === id);
  if (found === undefined) throw new Error(`No odd shape ${id}`);
  return found.inputSchema;
}

/** A value at a path of names. */
export function at(value: Json | undefined, ...path: (string | number)[]): Json | undefined {
  let place = value;
  for (const step of path) {
    if (Array.isArray(place) && typeof step === "number") place = place[step];
    else if (isJsonObject(place)) place = place[step];
    else return undefined;
  }
  return place;
}
