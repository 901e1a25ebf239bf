import type { FunctionDefinition } from "../core/model.ts";
import type { Tool } from "../core/tool.ts";
import { wellFormedText } from "../core/well_formed.ts";
import type { WireNames } from "./agent_run.ts";
import { nearestNames } from "./nearest_names.ts";

/** Most names that the answer to an unknown tool lists. */
const MAX_NAMES_SHOWN = 20;

/** The tools of one run, frozen at its start. */
export interface ToolSet {
  /** As the model sees them, sorted by name: the same bytes in every request of the run. */
  readonly definitions: FunctionDefinition[];
  /** Some of them by full name, in the order of the names; those that are gone are left out. */
  define(names: readonly string[]): FunctionDefinition[];
  /** The tool that the model calls so, if there is one. */
  find(wireName: string): Tool | undefined;
  /** The name to show for a wire name: the tool's full name, or what the model wrote, well-formed. */
  shownName(wireName: string): string;
  /** What the model reads when it called a tool that is not there. */
  describeUnknown(wireName: string): string;
}

/** Freezes the tools of a run. Of two tools with one name the first counts. */
export function createToolSet(tools: readonly Tool[], wireNames: WireNames): ToolSet {
  const byName = new Map<string, Tool>();
  for (const tool of tools) if (!byName.has(tool.name)) byName.set(tool.name, tool);
  const definitions = [...byName.values()].map((tool) => ({
    name: wireNames.toWire(tool.name),
    description: tool.description,
    parameters: tool.parameters,
    strict: tool.strict,
  })).sort((a, b) => a.name < b.name ? -1 : 1);
  const byWire = new Map(definitions.map((definition) => [definition.name, definition]));
  return {
    definitions,
    define: (names) =>
      names.flatMap((name) => byName.has(name) ? byWire.get(wireNames.toWire(name)) ?? [] : []),
    find: (wireName) => byName.get(wireNames.fromWire(wireName) ?? ""),
    shownName: (wireName) => wireNames.fromWire(wireName) ?? wellFormedText(wireName),
    describeUnknown(wireName) {
      const names = definitions.map(({ name }) => name);
      const nearest = nearestNames(wireName, names, MAX_NAMES_SHOWN);
      const available = nearest.length === 0 ? "none" : nearest.join(", ");
      return `No tool named ${wellFormedText(wireName.slice(0, 128))}. Available: ${available}`;
    },
  };
}
