import type { JsonObject } from "../../src/core/json.ts";

/** What real servers list, and odd shapes that were reported, by server. */
export function listsOfTools(): Map<string, JsonObject[]> {
  const folder = new URL("../fixtures/mcp-tools/", import.meta.url);
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  return new Map(files.map((file) => [
    file.replace(".jsonl", ""),
    Deno.readTextFileSync(new URL(file, folder)).trimEnd().split("\n").map((line) =>
      JSON.parse(line)
    ),
  ]));
}
