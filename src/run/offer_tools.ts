import { spelledNames } from "../core/name_pattern.ts";
import type { ToolChoice } from "../core/model.ts";
import type { Tool } from "../core/tool.ts";
import type { ToolOffer } from "../inference/agent_run.ts";
import { createFindTools, FIND_TOOLS } from "../operations/builtin/find_tools.ts";
import { createToolSearch, type SearchTools } from "../operations/search_tools.ts";
import { toTool } from "../operations/to_tool.ts";
import { createWireNames } from "../operations/wire_names.ts";

/** Most tools that are always shown because they are spelled out; the others are found like any. */
const MAX_SPELLED = 100;
/** Named by the pointers that stand for results which were left out. */
const READ_RESULT = "hub.read_result";

/**
 * What an agent with so many tools has: one more that finds them, and how its model is shown some. `most` 0 shows all,
 * however many there are.
 */
export function offerTools(
  chosen: readonly Tool[],
  { patterns, most, toolChoice }: {
    patterns: readonly string[];
    most: number;
    toolChoice: ToolChoice | undefined;
  },
): { tools: readonly Tool[]; offer?: ToolOffer } {
  if (most === 0 || chosen.length <= most) return { tools: chosen };
  let made: SearchTools | null = null;
  const search: SearchTools = (text, limit) => (made ??= createToolSearch(chosen))(text, limit);
  const { toWire } = createWireNames([...chosen.map(({ name }) => name), FIND_TOOLS]);
  const find = toTool(createFindTools({ search, toWire }));
  const spelled = new Set(spelledNames(patterns));
  const named = chosen.map(({ name }) => name).filter((name) => spelled.has(name));
  const always = new Set([FIND_TOOLS, READ_RESULT, ...named.slice(0, MAX_SPELLED)]);
  if (typeof toolChoice === "object") always.add(toolChoice.name);
  const tools = [...chosen.filter(({ name }) => name !== FIND_TOOLS), find];
  return {
    tools,
    offer: {
      pinned: tools.map(({ name }) => name).filter((name) => always.has(name)).sort(),
      most,
      search: (text, limit) => search(text, limit).map(({ name }) => name),
    },
  };
}
